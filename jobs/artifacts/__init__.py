"""What a job leaves: files, where they are kept, and for how long."""
