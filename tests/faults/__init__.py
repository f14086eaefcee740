"""Hazards: processes that are killed, stopped or cut off at the worst moment."""
