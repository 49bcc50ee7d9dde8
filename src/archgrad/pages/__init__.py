"""The pages of runs and studies, as files and live."""
