"""How users and systems of MiniSGD speak of a slot, by its meaning.

Every slot names a concept; slots of different services may share one. Phrases follow
the meaning of the slot, and stay the same whatever schema variant is in force.
"""

import re
from dataclasses import dataclass

_PREPOSITIONAL = re.compile(
    "(around|at|for|from|in|of|on|out of|to|until|with) "
    r"((a|the|my|return on|check in|check out) )?\{v\}( \w+)?"
)


@dataclass(frozen=True, slots=True)
class Concept:
    """The phrasings of one slot meaning.

    `tell` states a value ("{v}" stands for it), `yes` and `no` replace it for True
    and False, `ask` is the system's question, `noun` names the slot in "any NOUN is
    fine", `wonder` holds the user's questions for a value still unknown.
    """

    noun: str
    tell: tuple[str, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    wonder: tuple[str, ...] = ()

    @property
    def offer(self) -> tuple[str, ...]:
        """The phrases of `tell` that fit after "how about": no clauses."""
        return tuple(text for text in self.tell if _PREPOSITIONAL.fullmatch(text))


CONCEPTS: dict[str, Concept] = {
    # Travel
    "origin": Concept(
        "departure city",
        tell=(
            "from {v}",
            "leaving from {v}",
            "departing from {v}",
            "starting in {v}",
            "out of {v}",
        ),
        ask=("where do you leave from", "which city do you start in"),
    ),
    "destination": Concept(
        "arrival city",
        tell=(
            "to {v}",
            "going to {v}",
            "arriving in {v}",
            "with destination {v}",
            "that ends in {v}",
        ),
        ask=("where do you want to go", "which city do you travel to"),
    ),
    "date_out": Concept(
        "departure day",
        tell=(
            "on {v}",
            "leaving on {v}",
            "departing {v}",
            "that starts on {v}",
            "for {v}",
        ),
        ask=("when do you leave", "on which day do you depart"),
    ),
    "date_back": Concept(
        "return day",
        tell=(
            "coming back on {v}",
            "returning {v}",
            "with return on {v}",
            "and back on {v}",
            "flying back {v}",
        ),
        ask=("when do you return", "on which day do you come back"),
    ),
    "seat_class": Concept(
        "seat class",
        tell=(
            "in {v} class",
            "with a seat in {v}",
            "in the {v} cabin",
            "with {v} comfort",
        ),
        ask=("which seat class do you want", "what kind of cabin"),
        wonder=("what class is the seat", "which cabin is it"),
    ),
    "fare": Concept(
        "price",
        wonder=("what does it cost", "how much is the ticket", "what is the fare"),
    ),
    # Lodging
    "stay_city": Concept(
        "city",
        tell=("in {v}", "located in {v}", "somewhere in {v}", "to stay in {v}"),
        ask=("which city do you want to stay in", "where should the hotel be"),
    ),
    "check_in": Concept(
        "arrival day",
        tell=(
            "from {v}",
            "checking in on {v}",
            "with check in {v}",
            "the first night is {v}",
        ),
        ask=("when do you check in", "what is the first night"),
    ),
    "check_out": Concept(
        "departure day",
        tell=(
            "until {v}",
            "checking out on {v}",
            "with check out {v}",
            "the last night is {v}",
        ),
        ask=("when do you check out", "what is the last night"),
    ),
    "rooms": Concept(
        "number of rooms",
        tell=("with {v} rooms", "{v} rooms", "we need {v} rooms", "{v} rooms in total"),
        ask=("how many rooms do you need", "what number of rooms"),
    ),
    "pets": Concept(
        "pets",
        yes=(
            "that allows pets",
            "pets must be welcome",
            "for me and my dogs",
            "that accepts animals",
        ),
        no=("without pets", "no animals please", "where pets are not allowed"),
        ask=("do you bring pets", "should it accept animals"),
        wonder=("are pets welcome there", "can i bring my dogs"),
    ),
    # Restaurants
    "eat_city": Concept(
        "city",
        tell=("in {v}", "to eat in {v}", "somewhere in {v}", "located in {v}"),
        ask=("which city do you want to eat in", "where is the restaurant"),
    ),
    "cuisine": Concept(
        "food",
        tell=(
            "with {v} food",
            "serving {v} meals",
            "of {v} style",
            "with {v} cooking",
            "{v} cuisine",
        ),
        ask=("what kind of food do you like", "which cuisine"),
        wonder=("what food do they serve", "which cuisine is it"),
    ),
    "price_range": Concept(
        "price",
        tell=(
            "with {v} prices",
            "that is {v}",
            "in the {v} range",
            "at a {v} cost",
        ),
        ask=("what price range do you like", "how expensive can it be"),
        wonder=("how expensive is it", "what is the price range"),
    ),
    "eat_time": Concept(
        "time",
        tell=("at {v}", "for {v}", "the meal starts at {v}", "we arrive at {v}"),
        ask=("what time do you want to eat", "at what hour"),
    ),
    "party": Concept(
        "number of people",
        tell=(
            "for {v} people",
            "we are {v} persons",
            "{v} guests",
            "for a party of {v}",
            "{v} people in total",
        ),
        ask=("how many people", "what is the number of guests"),
    ),
    # Rental cars
    "car_city": Concept(
        "pick up city",
        tell=(
            "in {v}",
            "to pick up in {v}",
            "i collect it in {v}",
            "the rental starts in {v}",
        ),
        ask=("where do you pick up the car", "which city do you collect it in"),
    ),
    "pick_date": Concept(
        "pick up day",
        tell=(
            "from {v}",
            "starting {v}",
            "to pick up on {v}",
            "i collect it on {v}",
            "beginning {v}",
        ),
        ask=("when do you pick it up", "what is the first day of the rental"),
    ),
    "drop_date": Concept(
        "drop off day",
        tell=(
            "until {v}",
            "ending {v}",
            "to drop off on {v}",
            "i give it back on {v}",
            "i return it on {v}",
        ),
        ask=("when do you drop it off", "what is the last day of the rental"),
    ),
    "car_type": Concept(
        "type of car",
        tell=("a {v} car", "a {v} model", "of the {v} type", "some {v} vehicle"),
        ask=("what type of car do you want", "which vehicle category"),
        wonder=("what kind of car is it", "which model is it"),
    ),
    "insurance": Concept(
        "insurance",
        yes=("with insurance", "add insurance", "i want damage cover", "fully insured"),
        no=("without insurance", "no insurance", "i need no cover"),
        ask=("do you want insurance", "should i add cover"),
        wonder=("is insurance included", "does it include cover"),
    ),
    # Parcels
    "collect_place": Concept(
        "pick up place",
        tell=(
            "from the {v}",
            "starting at the {v}",
            "pick up at the {v}",
            "to collect at the {v}",
        ),
        ask=("where is the pick up", "which place do we collect from"),
    ),
    "deliver_place": Concept(
        "drop off place",
        tell=(
            "to the {v}",
            "going to the {v}",
            "drop off at the {v}",
            "bring it to the {v}",
            "with destination {v}",
        ),
        ask=("where is the drop off", "which place do we bring it to"),
    ),
    "deliver_date": Concept(
        "delivery day",
        tell=("on {v}", "it should arrive {v}", "delivered {v}", "for {v}"),
        ask=("when should it arrive", "on which day do we deliver it"),
    ),
    "parcel_size": Concept(
        "size",
        tell=("a {v} one", "it is {v}", "of {v} size", "the {v} box"),
        ask=("how big is the parcel", "what size is the package"),
    ),
    "express": Concept(
        "express delivery",
        yes=("by express", "it is urgent", "as fast as you can", "please rush it"),
        no=("not by express", "it is not urgent", "there is no rush"),
        ask=("is it urgent", "do you want express delivery"),
        wonder=("is it a fast delivery", "does it go by express"),
    ),
    # Cinema
    "title": Concept(
        "movie",
        tell=(
            "for {v}",
            "to see {v}",
            "the movie {v}",
            "the film is {v}",
            "to watch {v}",
        ),
        ask=("which movie do you want to see", "what is the name of the film"),
        wonder=("which film do they show", "what is the title"),
    ),
    "show_date": Concept(
        "day",
        tell=("on {v}", "the show on {v}", "to watch on {v}", "for {v}"),
        ask=("on which day", "when do you want to watch it"),
    ),
    "show_time": Concept(
        "time",
        tell=("at {v}", "starting at {v}", "it begins at {v}", "around {v}"),
        ask=("at what time", "at what hour does it start"),
        wonder=("what time does it start", "at what hour does it begin"),
    ),
    "tickets": Concept(
        "number of tickets",
        tell=("{v} tickets", "we need {v} seats", "with {v} seats", "{v} seats"),
        ask=("how many tickets", "what number of seats do you need"),
    ),
    "subtitles": Concept(
        "subtitles",
        yes=("with subtitles", "captions on please", "with text on the screen"),
        no=("without subtitles", "no captions please", "without text on the screen"),
        ask=("do you want subtitles", "should captions be on"),
        wonder=("does it have subtitles", "are there captions"),
    ),
    # Calendar
    "guest": Concept(
        "guest",
        tell=("with {v}", "to meet {v}", "i invited {v}", "the guest is {v}"),
        ask=("who do you meet", "who is the guest"),
        wonder=("who is invited", "which person do i meet"),
    ),
    "meet_date": Concept(
        "day",
        tell=("on {v}", "for {v}", "the event is on {v}", "the day is {v}"),
        ask=("on which day", "what is the date"),
    ),
    "start_time": Concept(
        "start time",
        tell=("from {v}", "starting at {v}", "it begins at {v}", "we start at {v}"),
        ask=("when does it start", "at what time does it begin"),
        wonder=("at what time does it begin", "when do we start"),
    ),
    "end_time": Concept(
        "end time",
        tell=("until {v}", "ending at {v}", "it finishes at {v}", "we end at {v}"),
        ask=("when does it end", "at what time does it finish"),
        wonder=("at what time does it finish", "when do we end"),
    ),
    # Visits to a professional
    "doctor": Concept(
        "person",
        tell=("with {v}", "to see {v}", "{v} treats me", "my expert is {v}"),
        ask=("who do you want to see", "what is the name"),
        wonder=("who will treat me", "what is the name of the person"),
    ),
    "doctor_type": Concept(
        "type of doctor",
        tell=("with a {v}", "to see the {v}", "i need a {v}", "for the {v}"),
        ask=("what type of doctor", "which kind of doctor do you need"),
    ),
    "tutor": Concept(
        "tutor",
        tell=("with {v}", "to see {v}", "{v} teaches me", "my tutor is {v}"),
        ask=("which tutor do you want to see", "what is the name"),
        wonder=("which tutor is it", "what is the name of the tutor"),
    ),
    "language": Concept(
        "language",
        tell=("in {v}", "for {v}", "i want to learn {v}", "the {v} lesson"),
        ask=("what type of language", "which language do you want to learn"),
    ),
    "visit_date": Concept(
        "day",
        tell=("on {v}", "for {v}", "i can come {v}", "the appointment is on {v}"),
        ask=("on which day do you come", "what is the date of the visit"),
        wonder=("on which day is it", "what is the date"),
    ),
    "visit_time": Concept(
        "time",
        tell=("at {v}", "around {v}", "i can come at {v}", "the hour is {v}"),
        ask=("at what time do you come", "what is the hour of the visit"),
        wonder=("at what time is it", "what is the hour"),
    ),
    "lesson_date": Concept(
        "day",
        tell=("on {v}", "for {v}", "i can come {v}", "the lesson is on {v}"),
        ask=("on which day do you come", "what is the date of the lesson"),
        wonder=("on which day is it", "what is the date"),
    ),
    "lesson_time": Concept(
        "time",
        tell=("at {v}", "around {v}", "i can come at {v}", "the hour is {v}"),
        ask=("at what time do you come", "what is the hour of the lesson"),
        wonder=("at what time is it", "what is the hour"),
    ),
    # Money
    "account": Concept(
        "account",
        tell=("from {v}", "with my {v} account", "use {v}", "the {v} funds"),
        ask=("from which account", "which account do you use"),
    ),
    "receiver": Concept(
        "receiver",
        tell=("to {v}", "for {v}", "pay {v}", "my friend {v} gets it"),
        ask=("who gets the money", "which person do you pay"),
    ),
    "amount": Concept(
        "amount",
        tell=("{v}", "for {v}", "the amount is {v}", "{v} in cash"),
        ask=("how much do you send", "what amount of money"),
    ),
    "private": Concept(
        "privacy",
        yes=("make it private", "keep it secret", "hide it", "it is private"),
        no=("it is not private", "do not hide it", "it is no secret"),
        ask=("is it private", "should i hide it"),
    ),
    # Homes
    "home_city": Concept(
        "city",
        tell=("in {v}", "to live in {v}", "somewhere in {v}", "located in {v}"),
        ask=("which city do you want to live in", "where should the home be"),
    ),
    "bedrooms": Concept(
        "number of bedrooms",
        tell=("with {v} bedrooms", "{v} bedrooms", "we need {v} bedrooms"),
        ask=("how many bedrooms do you need", "what number of bedrooms"),
    ),
    "furnished": Concept(
        "furniture",
        yes=("with furniture", "furnished please", "that has beds and tables"),
        no=("without furniture", "not furnished", "i have my own furniture"),
        ask=("should it be furnished", "do you need furniture"),
        wonder=("is it furnished", "does it have furniture"),
    ),
    "home_date": Concept(
        "visit day",
        tell=("on {v}", "i can visit {v}", "to see it on {v}", "i come {v}"),
        ask=("when do you want to visit", "on which day do you see it"),
        wonder=("when can i visit", "on which day can i see it"),
    ),
}
