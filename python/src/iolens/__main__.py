"""`python -m iolens`."""

import sys

from .cli import main

# Processes that `compact` starts import this module.
if __name__ == "__main__":
    sys.exit(main())
