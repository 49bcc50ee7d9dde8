"""Timing of supernets and searches."""
