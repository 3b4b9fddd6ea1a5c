"""Tasks, results and arrays that other people made: read under their names, into ours."""
