"""The press: a program of its own that turns articles into a PDF, an HTML page or an EPUB, and may be killed at any time."""

OUT_OF_MEMORY = 3       # its exit status when it may have no more
