"""The shared value lists of MiniSGD.

Several slots of one service share a list (origin and destination, first and last day).
A tracker cannot distinguish them by the value, so it must read the descriptions.
"""

VALUES: dict[str, tuple[str, ...]] = {
    "cities": (
        "Paris", "Rome", "Berlin", "Madrid", "London", "Boston", "Chicago", "Denver",
        "Oslo", "Tokyo", "New York", "San Diego",
    ),
    "places": (
        "airport", "station", "harbor", "museum", "stadium", "mall", "library",
        "market",
    ),
    "dates": (
        "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
        "March 3", "June 5",
    ),
    "times": ("9 am", "10 am", "noon", "2 pm", "4 pm", "6 pm", "8 pm", "midnight"),
    "names": (
        "Alice", "Bruno", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Irene",
        "Jonas",
    ),
    "titles": (
        "Silent River", "Red Moon", "Night Bird", "Cold Summer", "Lost Island",
        "Blue Horses",
    ),
    "amounts": ("20 dollars", "50 dollars", "80 dollars", "100 dollars", "200 dollars"),
}  # fmt: skip
