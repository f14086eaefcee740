"""The press: a program of its own that makes of articles a PDF, a page or an e-book, and may be killed at any time."""

OUT_OF_MEMORY = 3       # its exit status when it may have no more
