"""Addresses of the extra: the provider's two, and those of second factors. No other page of it is served."""

from allauth.account.views import reauthenticate
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from runs.web import accounts

_sign_in = RedirectView.as_view(pattern_name="login")

urlpatterns: list[URLPattern | URLResolver] = [
    path("accounts/", include("allauth.socialaccount.providers.openid_connect.urls")),
    path("accounts/second-factor/", include("allauth.mfa.urls")),
    path("accounts/reauthenticate/", reauthenticate, name="account_reauthenticate"),
    # Names that the library sends people to; each is one of our own pages.
    path("accounts/login/", accounts.SignIn.as_view(), name="account_login"),
    path("accounts/logout/", LogoutView.as_view(), name="account_logout"),
    path("accounts/inactive/", _sign_in, name="account_inactive"),
    path("accounts/cancelled/", _sign_in, name="socialaccount_login_cancelled"),
    path("accounts/failed/", _sign_in, name="socialaccount_login_error"),
]
