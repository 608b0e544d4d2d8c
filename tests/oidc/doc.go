// Package oidc is a provider of OpenID Connect on loopback, for tests. It does what the specifications ask for (OpenID
// Connect Core and Discovery, RFC 6749, 7636, 8252, 8628 and 9207), is as strict as a good one with its clients, and
// lies on demand. It signs by hand with the standard library, so that it shares no code with what it tests.
package oidc
