"""What a job is: its states, its record, its transitions, and who may see it."""
