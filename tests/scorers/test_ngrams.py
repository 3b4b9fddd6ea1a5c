from hypothesis import given
from hypothesis import strategies as st

from pipeline.scorers.ngrams import UNKNOWN, tokens, vocabulary


def test_tokens_are_words_their_parts_and_neighbouring_pairs() -> None:
    assert list(tokens("Red cat!")) == [
        *("<red>", "<re", "red", "ed>", "<red", "red>"),
        *("<cat>", "<ca", "cat", "at>", "<cat", "cat>"),
        "red cat",
    ]


def test_every_word_and_part_is_kept_but_a_pair_needs_two_texts() -> None:
    known = vocabulary(["red dragon", "big red dragon", "cat"]).known
    assert {"<dragon>", "<cat>", "drag", "cat>", "red dragon"} <= set(known)
    assert "big red" not in known


def test_a_text_twice_counts_once() -> None:
    assert "red cat" not in vocabulary(["red cat", "red cat"]).known


def test_an_unseen_word_is_known_by_its_parts_and_a_foreign_one_is_unknown() -> None:
    words = vocabulary(["snapdragon", "dragonfly"])
    assert words.encode("dragons") != [UNKNOWN]
    assert words.encode("zzz") == words.encode("") == words.encode("?!") == [UNKNOWN]


def test_the_limit_keeps_the_tokens_of_most_texts_and_ties_go_to_the_alphabet() -> None:
    assert vocabulary(["bb aa", "bb cc", "dd"], max_tokens=6).known == (
        "<bb",
        "<bb>",
        "bb>",
        "<aa",
        "<aa>",
        "<cc",
    )


@given(st.lists(st.text(max_size=12), max_size=8), st.text(max_size=12))
def test_numbers_are_within_the_vocabulary_and_never_none(texts: list[str], text: str) -> None:
    words = vocabulary(texts)
    numbers = words.encode(text)
    assert numbers and all(0 <= number < len(words) for number in numbers)
    assert vocabulary(list(reversed(texts))) == words
