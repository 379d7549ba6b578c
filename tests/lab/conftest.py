"""Tests in a real browser are for `make test-page`, which says so."""

import os

collect_ignore = [] if os.environ.get("TOKENFIELD_PAGE") else ["page"]
