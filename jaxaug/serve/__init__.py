"""`jaxaug serve`: a trained tracker as a local web page and a JSON API.

Starlette and uvicorn are the extra `serve`; nothing else of jaxaug needs them.
"""
