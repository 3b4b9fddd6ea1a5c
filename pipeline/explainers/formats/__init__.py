"""Result files of published explanation methods, one module a method."""
