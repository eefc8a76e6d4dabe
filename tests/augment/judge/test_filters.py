"""The twelve filters, sensitive words, and required parts of a paraphrase."""

import pytest

from jaxaug.augment.judge import filters
from jaxaug.core.errors import UserError

# code -> source, a dropped paraphrase, and a similar one that is kept
EXAMPLES = {
    "advice": ("Name of the hotel", "You should know the name of the hotel",
     "The title under which the hotel is known"),
    "action": ("Number of rooms", "Book the number of rooms",
     "Desired number of rooms"),
    "named_entity": ("City where the event takes place",
     "City in Germany where the event takes place", "Town where the event takes place"),
    "rare_word": ("Name of the hotel", "Appellative of the hostelrie",
     "Designation of the inn"),
    "several_sentences": ("Price of the ticket", "It is a ticket. The price is known.",
     "Price of the ticket, e.g. in dollars"),
    "repeated_ngram": ("Date of the flight",
     "Date of the flight or day, date of the trip",
     "Date of the flight or of the trip"),
    "similar_bigrams": ("Address of the restaurant",
     "The restaurant's address, the addresses of restaurants",
     "The restaurant's address and its street"),
    "repeated_word": ("Location of the cab", "Location of the the cab",
     "Location of the cab, the place"),
    "past_tense": ("Hotel in which the user stays", "Hotel in which the user stayed",
     "Set of hotels in which the user stays"),
    "passive": ("City of the dentist", "The city was chosen by the dentist",
     "City in which the dentist is located"),
    "question": ("Name of the movie", "What is the name of the movie",
     "What the movie is called"),
    "alphanumeric": ("Number of the bus", "Number of the b2b bus", "Count of the bus"),
}  # fmt: skip


def test_there_are_the_twelve_of_the_paper():
    assert list(filters.FILTERS) == list(EXAMPLES) and len(EXAMPLES) == 12


@pytest.mark.parametrize("code", EXAMPLES)
def test_each_filter_drops_its_example_and_keeps_its_neighbour(code):
    source, dropped, kept = EXAMPLES[code]
    found = filters.reasons(source, [dropped, kept, source], names=[code])
    assert found == [(code,), (), ("copy",)]
    # Paraphrases may contain whatever their source contains.
    assert filters.reasons(dropped, [dropped], names=[code]) == [("copy",)]


# The examples of table 4, with probable descriptions of SGD as sources.
OF_THE_PAPER = [
    ("advice", "Date for the appointment",
     "An appointment is necessary for your hair."),
    ("action", "The number of flights to the airport",
     "They commemorate the number of flights to the airport."),
    ("named_entity", "Address of the dentist", "Enter the doctor's Leningrad address."),
    ("rare_word", "Address of the dentist", "The address is ofadvisory."),
    ("several_sentences", "Address of the dentist",
     "The address is the dentist's box. Guidelines for hiring a dentist."),
    ("repeated_ngram", "Address of the dentist",
     "The dentist is Address of the dentist."),
    ("similar_bigrams", "Type of the event",
     "The type of event is stated in the title of the event."),
    ("repeated_word", "Average review rating for the hotel",
     "Average review rating for a hotel hotel."),
    ("past_tense", "Address of the dentist", "It was the dentist's address."),
    ("passive", "Address of the dentist",
     "The address was given by abrasives from the dentist."),
    ("question", "Balance of the account", "Is there a balance of the account?"),
    ("alphanumeric", "Number of baths in the apartment", "400 baths in an apartment."),
]  # fmt: skip


@pytest.mark.parametrize("code, source, candidate", OF_THE_PAPER)
def test_examples_of_the_paper(code, source, candidate):
    assert filters.reasons(source, [candidate], names=[code], checks=()) == [(code,)]


MORE = [
    ("advice", "Find a hotel", "Make sure to find a hotel", True),
    ("advice", "Find a hotel", "Find a hotel, please", True),
    ("advice", "You should find a hotel", "You must find a hotel", False),
    ("action", "City of departure", "Leaving the city", True),
    ("action", "City of departure", "The bus leaves the city", True),
    ("action", "City of departure", "Where the bus leaves from", False),
    ("action", "Whether pets are allowed", "If the hotel takes pets", False),
    ("action", "Departure time", "Leaving time for the return flight", False),
    ("action", "Find a hotel", "Book a room in a hotel", False),
    ("action", "Book an appointment", "Request an appointment", False),
    ("action", "City of departure", "Indicates the city of departure", False),
    ("named_entity", "City of the dentist", "Provider's city", False),
    ("named_entity", "Songs on Spotify", "Music on Spotify", False),
    ("rare_word", "Type of cuisine in the eatery", "Cuisine of the eatery", False),
    ("rare_word", "Flights to Xyzzyville", "Trips to Xyzzyville", False),
    ("several_sentences", "A hotel. With rooms.", "An inn. It has rooms.", False),
    ("repeated_ngram", "a b c, a b c", "a b c and a b c", False),
    ("similar_bigrams", "Hotel", "Hotel name or name of hotels", True),
    ("repeated_word", "Name", "a bar, bar stools", False),
    ("past_tense", "Hotel", "Set the date of the hotel", False),
    ("past_tense", "Date shown", "Date shown on the page", False),
    ("question", "Number of rooms", "Is it the number of rooms?", True),
    ("question", "Number of rooms", "How many rooms are there", True),
    ("question", "Number of rooms", "How many rooms the user wants", False),
    ("question", "Is it free?", "Is it free of charge?", False),
    ("alphanumeric", "The 2nd leg", "2nd part", False),
    ("alphanumeric", "Two legs", "2nd part", True),
]


@pytest.mark.parametrize("code, source, candidate, dropped", MORE)
def test_more_of_each_filter(code, source, candidate, dropped):
    (codes,) = filters.reasons(source, [candidate], names=[code])
    assert (code in codes) == dropped


def test_all_codes_of_a_candidate_are_given_in_order():
    (codes,) = filters.reasons(
        "Name of 2 hotels",
        ["Is it told by Peter? You should know the the city was chosen."],
    )
    assert codes == (
        "advice", "named_entity", "several_sentences", "repeated_word", "past_tense",
        "passive", "question", "lost_value",
    )  # fmt: skip
    assert filters.reasons("Name", []) == []


@pytest.mark.parametrize(
    "source, candidate, protected, codes",
    [
        ("Hotel of 4 stars", "Hotel with 4 stars", (), ()),
        ("Hotel of 4 stars", "Hotel with four stars", (), ()),
        ("Hotel of four stars", "Hotel with 4 stars", (), ()),
        ("Hotel of 4 stars", "Hotel with stars", (), ("lost_value",)),
        ("Hotel of 4 stars", "A 40 star hotel", (), ("lost_value", "added_number")),
        ("Rating from 0.5 to 1,000", "From 0.5 up to 1,000", (), ()),
        ("Rating from 0.5", "Rating from 0.55", (), ("lost_value", "added_number")),
        ("The 2nd leg", "The second leg", (), ("lost_value",)),
        ("Stars of the hotel", "One to five stars", (), ("added_number",)),
        ("Is it furnished", "It is not furnished", (), ("changed_negation",)),
        ("Whether pets aren't allowed", "Are pets allowed", (), ("changed_negation",)),
        ("Flights without a stop", "Flights that do not stop", (), ()),
        ("Whether it is open", "Whether or not it is open", (), ()),
        ("Name of the note", "The title of the note", (), ()),
        ("One of the hotels", "A hotel", (), ()),
        ("Round-trip flight", "Two-way flight", (), ()),
        ("Trip to {city}", "Journey to {city}", (), ()),
        ("Trip to {city}", "Journey to the city", (), ("lost_value",)),
        ("Trip to <name> for $price", "To <name>, $price", (), ()),
        ("Economy or Business class", "Economy, business", ("Economy", "Business"), ()),
        ("Economy class", "Economic class", ("Economy",), ("lost_value",)),
        ("a c++ course", "a course in C++", ("c++",), ()),
    ],
)
def test_values_numbers_and_placeholders_survive(source, candidate, protected, codes):
    assert filters.reasons(source, [candidate], names=(), protected=protected) == [
        codes
    ]


def test_sensitive_words_are_whole_words():
    found = filters.reasons(
        "Killer whale tours",
        ["a skilled tour", "How to Kill a tour", "a killer tour", "a dead end"],
        names=(),
        sensitive=["kill", "killer", "dead end", ""],
    )
    assert found == [(), ("sensitive_word",), (), ("sensitive_word",)]


def test_an_unknown_filter_is_named():
    with pytest.raises(UserError, match=r"'pasive' is not a filter; .*passive"):
        filters.reasons("a", ["b"], names=["pasive"])


@pytest.mark.parametrize("check", filters.CHECKS)
def test_each_check_can_be_left_out(check):
    source = "Hotel of 4 stars"
    texts = ["hotel of 4 stars", "Hotel of stars", "4 stars, 2 beds", "No 4 stars"]
    found = dict(zip(filters.CHECKS, texts, strict=True))
    for name, text in found.items():
        assert filters.reasons(source, [text], names=()) == [(name,)]
        rest = [one for one in filters.CHECKS if one != check]
        expected = () if name == check else (name,)
        assert filters.reasons(source, [text], names=(), checks=rest) == [expected]


def test_commands_stay_commands():
    candidates = ["car you rent", "get a car", "adding a car", "car rental find"]
    found = filters.keeps_command("rent a car", candidates)
    assert found == [False, True, False, False]
    candidates = ["Book of a flight", "Reserve a seat on a plane"]
    assert filters.keeps_command("Book a flight", candidates) == [False, True]
    assert filters.keeps_command("City of the bus", ["Town of the bus"]) == [True]
