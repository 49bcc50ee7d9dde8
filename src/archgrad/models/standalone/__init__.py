"""The pieces of a standalone file: plain PyTorch, with the module names of archgrad's own networks.

A written file is a header with constants, then the part below the line ``# ---`` of ``layers.py``, of the network's own
piece and of ``usage.py``.
"""
