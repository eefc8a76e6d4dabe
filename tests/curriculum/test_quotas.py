from jaxaug.curriculum import options


def test_copies_of_a_text_count_neither_case_nor_white_space():
    outputs = {
        "bottom_k": ["Where is Peru?", "where  is peru ?", "Is Peru far?"],
        "sampling": ["is peru far ?", "Find Peru?", "Pick up?"],
    }
    assert options.distinct(
        "where is  peru ?", outputs, ["find peru ?", "pickup?"]
    ) == [
        ("is Peru far?", "bottom_k"),
        ("pick up?", "sampling"),
    ]
