"""Where untrusted things happen: folders, processes, git, and what may leave them."""
