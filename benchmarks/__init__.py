"""How fast archgrad is: scripts that print a table, and store it with ``--json FILE``. Run ``make bench``.

Times are process CPU time on one thread, taken in turns in one run, the fastest of the repeats: trust ratios more than
milliseconds.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for the plain supernets in tests/reference
