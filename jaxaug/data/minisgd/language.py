"""What users and systems of MiniSGD say besides the phrases of the slots."""

# How a user opens an intent, keyed by the original names of service and intent.
OPENERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("Flights_1", "SearchFlight"): (
        "search for flights",
        "find me a flight",
        "show available flights",
        "i am looking for a plane",
    ),
    ("Flights_1", "BookFlight"): (
        "book a flight",
        "i want to buy a plane ticket",
        "reserve a plane ticket",
        "make a flight booking",
    ),
    ("Hotels_1", "FindHotel"): (
        "find a hotel",
        "i am looking for a hotel",
        "show me hotels",
        "search for a place to stay",
    ),
    ("Hotels_1", "BookHotel"): (
        "book a hotel room",
        "reserve a hotel",
        "i want to book a room",
        "make a room reservation",
    ),
    ("Restaurants_1", "ReserveTable"): (
        "reserve a table",
        "book a restaurant",
        "i need a table",
        "make a dinner reservation",
    ),
    ("Cars_1", "RentCar"): (
        "rent a car",
        "i need a rental car",
        "hire a vehicle",
        "i want to rent an auto",
    ),
    ("Couriers_1", "SendParcel"): (
        "send a parcel",
        "ship a package",
        "i have a box to send",
        "deliver a package",
    ),
    ("Movies_1", "BuyTickets"): (
        "buy movie tickets",
        "i want to go to the cinema",
        "get me tickets",
        "book a movie",
    ),
    ("Meetings_1", "AddMeeting"): (
        "add a meeting",
        "set up a meeting",
        "create an event",
        "plan a meeting",
    ),
    ("Meetings_1", "CheckCalendar"): (
        "check the calendar",
        "show my meetings",
        "what is on my calendar",
        "look at my events",
    ),
    ("Doctors_1", "BookVisit"): (
        "book a doctor visit",
        "make an appointment",
        "i need medical care",
        "schedule a doctor",
    ),
    ("Payments_1", "SendMoney"): (
        "send money",
        "make a payment",
        "transfer some money",
        "i want to pay a friend",
    ),
    ("Payments_1", "CheckBalance"): (
        "check the balance",
        "how much money is left",
        "what is my balance",
        "show my funds",
    ),
    ("Homes_1", "FindHome"): (
        "find an apartment",
        "i am looking for a flat",
        "search for a home",
        "show me apartments",
    ),
    ("Homes_1", "VisitHome"): (
        "visit an apartment",
        "i want to see a flat",
        "schedule a visit to a home",
        "go to see an apartment",
    ),
    ("Trains_1", "FindTrain"): (
        "find a train",
        "search for trains",
        "i am looking for a train",
        "show available trains",
    ),
    ("Trains_1", "BuyTrainTicket"): (
        "buy a train ticket",
        "book a train",
        "i want to reserve a train",
        "get me a train ticket",
    ),
    ("Taxis_1", "GetTaxi"): (
        "get a taxi",
        "i need a taxi",
        "call me a taxi",
        "order a taxi",
    ),
    ("Lessons_1", "BookLesson"): (
        "book a lesson",
        "make a lesson appointment",
        "i want to learn a language",
        "schedule a lesson",
    ),
    ("Buses_1", "FindBus"): (
        "find a bus",
        "search for buses",
        "i am looking for a bus",
        "show available buses",
    ),
}

GREETINGS = ("hello", "hi", "please", "good day")
# Remarks that carry no value; they also make the nouns of the test-only services
# known words, as they are to any pretrained model.
REMARKS = (
    "my train was late",
    "i came by taxi",
    "he gives a lesson to a learner",
    "the bus is slow",
    "my tutor speaks every language",
    "i like to learn in the taxi",
    "trains and buses take many passengers",
    "she teaches me to study a tongue",
    "i take a ride in town",
)
ANY_OPEN = (
    "any {noun} is fine",
    "i do not mind the {noun}",
    "no matter the {noun}",
)
ANY_ASKED = ("anything is fine", "i do not mind", "no preference")
CHANGE = ("no make it {phrase}", "actually {phrase}", "sorry {phrase} instead")
FORGET = ("forget the {noun}", "drop the {noun}")
ACCEPT = ("yes that works", "sounds good", "yes please", "that is perfect")
REJECT = ("no {phrase}", "no rather {phrase}")
AFFIRM = ("yes", "that is right", "correct")
THANKS = ("thanks", "thank you that is all", "great thanks bye")
OFFER = ("how about {phrase}", "i have one {phrase}", "is {phrase} ok")
CONFIRM = ("please confirm {phrases}", "so that is {phrases}", "ok {phrases} right")
ANSWER = ("it is {v}", "that would be {v}")
ANSWER_YES = ("yes it is", "yes")
ANSWER_NO = ("no sorry", "no it is not")
SUCCESS = ("done", "it is booked", "all set")
# The dialogue ends before the user has told everything that is needed.
LATER = ("we can go on later goodbye", "i keep that for later have a nice day")
FAILURE = ("sorry that did not work", "sorry no luck today")
FOUND = ("i found {n}", "there are {n}")
# What is counted where it is not results, keyed as OPENERS.
COUNTED = {
    ("Payments_1", "CheckBalance"): ("there are {n} dollars", "you have {n} dollars"),
}
MORE = ("anything else", "what else")
GOODBYE = ("goodbye", "have a nice day")
