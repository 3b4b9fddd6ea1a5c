"""Figures, tables and tracking."""
