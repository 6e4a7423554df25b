"""The ASGI entry: `uvicorn magiccontext.asgi:application`."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "magiccontext.settings")

from magiccontext.body_limit import BodyLimit
from magiccontext.threads import KeptThreads

# Loads the apps, so it comes before anything that imports models.
_http = BodyLimit(KeptThreads(get_asgi_application()))

application = ProtocolTypeRouter({"http": _http, "websocket": URLRouter([])})
