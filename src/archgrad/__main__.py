"""``python -m archgrad`` is the command ``archgrad``."""

from archgrad.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
