"""The phrases of users and systems of MiniSGD, except for the phrases of slots."""

from jaxaug_papers.minisgd.concepts import OPENERS

__all__ = ["OPENERS", "REMARKS"]

GREETINGS = ("hello", "hi", "good day", "hi there")
# Frames of an opener: commands, sentences, and both for the second service.
COMMAND = ("{opener}", "please {opener}", "can you {opener}", "could you {opener}")
SENTENCE = ("{opener}",)
NEXT_COMMAND = ("can you also {opener}", "now please {opener}", "and please {opener}")
NEXT_SENTENCE = ("also {opener}", "and {opener}")
# First words of an opener or a phrase that is a whole sentence.
SUBJECTS = ("i", "we", "what", "how", "something")
# Remarks without a value. They also teach the nouns of unseen services, which any
# pretrained model knows.
REMARKS = (
    "my train was late", "i came by taxi", "he gives a lesson to a learner",
    "the bus is slow", "my tutor speaks every language", "i like to learn in the taxi",
    "trains and buses take many passengers", "she teaches me to study a tongue",
    "i take a ride in town", "my family travels each year on a holiday",
    "the houses there are good for some nights", "we sit down at the diner",
    "he cooks to feed the whole country", "they donate to a school and a hospital",
    "a donor makes a donation every month", "the monthly support is a good cause",
    "someone needs help", "he found his tickets",
    "she talks in the next episode of the podcast", "i have seen it at the theater",
    "the worker wants to repair a thing", "it takes work to fix a broken building",
    "she fixes things and they are fixed", "the repairs have taken long",
)  # fmt: skip
# Phrases before an opener with unwanted values, by value list.
ASIDES = {
    "cities": (
        "i was in {v} last week and now", "my sister lives in {v} but now",
        "it rains here in {v} so",
    ),
    "places": ("i work near the {v} and now", "i am not at the {v} today so"),
    "dates": ("i am busy on {v} so", "{v} was a long day so now"),
    "times": (
        "i get up at {v} every day but now",
        "i have to call my boss at {v} but now",
    ),
    "names": ("my friend {v} says hello and", "i talked to {v} about it so now"),
    "titles": ("i have had enough of {v} so", "{v} was not so good so now"),
    "amounts": ("i found {v} today so", "i lost {v} last week but now"),
}  # fmt: skip
# A value that is corrected in the same sentence.
SLIP = (
    "{wrong} no wait {right}", "{wrong} sorry i mean {right}",
    "{wrong} or rather {right}",
)  # fmt: skip
NOT_BUT = ("not {wrong} but {right}",)
ANY_OPEN = (
    "any {noun} is fine", "i do not mind the {noun}", "the {noun} does not matter",
)  # fmt: skip
ANY_FLAG = ("i do not care about {noun}", "with or without {noun} is fine")
ANY_ASKED = ("anything is fine", "i do not mind", "no preference", "it does not matter")
CHANGE = ("no make it {phrase}", "actually {phrase}", "sorry {phrase} instead")
FORGET = ("forget about the {noun}", "leave the {noun} open")
ACCEPT = ("yes that works", "sounds good", "yes please", "that is perfect")
REJECT = ("no {phrase}", "no rather {phrase}", "no make it {phrase}")
DECLINE = ("no thanks", "no not that", "rather not", "that does not suit me")
AFFIRM = ("yes", "that is right", "correct")
THANKS = ("thanks", "thank you that is all", "great thanks bye")
# Before the second service of a dialogue.
THANKS_NEXT = ("thanks", "thank you", "great thanks")
OFFER = ("how about {phrase}", "what about {phrase}", "shall we say {phrase}")
CONFIRM = ("please confirm {phrases}", "so that is {phrases}", "ok {phrases} right")
ANSWER = ("it is {v}", "that would be {v}")
ANSWER_THE = ("it is the {v}", "that would be the {v}")
ANSWER_YES = ("yes it is", "yes", "yes indeed")
ANSWER_NO = ("no sorry", "no", "i am afraid not")
SUCCESS = ("done", "it is done", "all set")
# The dialogue ends before the user has given all required values.
LATER = ("we can go on later goodbye", "i keep that for later have a nice day")
FAILURE = ("sorry that did not work", "sorry no luck today")
FOUND = ("i found {n} for you", "there are {n} that fit")
COUNTS = ("2", "3", "4", "5")
# Intent -> phrases and counts, for intents that count something other than results.
COUNTED = {
    "CheckBalance": (("there are {n} dollars", "you have {n} dollars"), ("300", "450")),
    "ViewFunds": (("there are {n} dollars", "you have {n} dollars"), ("300", "450")),
    "GetWeather": (
        ("it will be {n} degrees", "expect {n} degrees"),
        ("12", "18", "25"),
    ),
    "CheckCalendar": (("you have {n} meetings", "there are {n} events"), COUNTS),
}
MORE = ("anything else", "what else can i do for you")
GOODBYE = ("goodbye", "have a nice day")
