"""`python -m symshare`."""

from symshare.cli import main

if __name__ == "__main__":
    main()
