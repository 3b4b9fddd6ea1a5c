"""assay: is this explanation of a vision model any good?"""
