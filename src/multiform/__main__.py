"""``python -m multiform``: the command."""

import sys

from multiform.cli import main

sys.exit(main())
