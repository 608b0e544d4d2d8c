package openid

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Bounds on tokens.
const (
	mostToken  = 64 << 10       // bytes
	clockSlack = time.Minute    // how far the clocks of the issuer and of this host may be apart
	mostAge    = 24 * time.Hour // however long the issuer lets a token live
	endOfTime  = 1 << 40        // seconds: later times are nonsense
)

// algorithms are those with a public key. "none", and those by which who can verify can sign as well, are not there.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// Claims are what the issuer has signed of a person, by name.
type Claims map[string]json.RawMessage

// Verify verifies an ID token that the issuer has made for a client and for nobody else, and gives its claims. With a
// nonce it must be the answer to the request that had it. The error wraps ErrToken, or ErrAway where the issuer's
// keys cannot be had.
func (i *Issuer) Verify(ctx context.Context, raw, client, nonce string) (Claims, error) {
	// What cannot be right is refused before it costs more than reading it: anybody can send a token.
	said, err := unverified(raw)
	if err == nil {
		err = said.check(i.URL, client, nonce, i.now())
	}
	if err != nil {
		return nil, err
	}
	d, err := i.describe(ctx)
	if err != nil {
		return nil, err
	}
	keys := &keySet{KeySet: d.keys}
	// Times are checked below, with the same slack for all of them.
	token, err := oidc.NewVerifier(i.URL, keys, &oidc.Config{ClientID: client, SupportedSigningAlgs: algorithms, SkipExpiryCheck: true}).Verify(ctx, raw)
	switch {
	case err != nil && keys.away():
		return nil, fmt.Errorf("%w: %s: its keys cannot be fetched: %s", ErrAway, i.URL, printable(withoutURL(keys.err).Error()))
	case err != nil:
		return nil, fmt.Errorf("%w: %s", ErrToken, printable(err.Error()))
	}
	var payload json.RawMessage
	if err := token.Claims(&payload); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrToken, printable(err.Error()))
	}
	signed, err := jsonOf(payload)
	if err != nil {
		return nil, err
	}
	return signed, Claims(signed).check(i.URL, client, nonce, i.now())
}

// keySet keeps why a signature was not verified: the verifier hands that on as text.
type keySet struct {
	oidc.KeySet
	err error
}

func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err
}

// away says whether the issuer did not give its keys, so that the token may be right.
func (k *keySet) away() bool {
	return k.err != nil && strings.HasPrefix(k.err.Error(), "fetching keys") && !errors.Is(k.err, errSeldom)
}

// checkForm refuses what is no signed ID token before anything is asked of the issuer: one in JSON form, with another
// type, such as an access token (RFC 9068) or a logout token, or with none of the algorithms.
func checkForm(raw string) error {
	if len(raw) > mostToken {
		return fmt.Errorf("%w: it has more than %d bytes", ErrToken, mostToken)
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || parts[2] == "" {
		return fmt.Errorf("%w: it is not a signed ID token", ErrToken)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return fmt.Errorf("%w: it is not a signed ID token", ErrToken)
	}
	var header struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return fmt.Errorf("%w: it is not a signed ID token", ErrToken)
	}
	if header.Type != "" && !strings.EqualFold(header.Type, "JWT") {
		return fmt.Errorf("%w: it is of type %s, and not an ID token", ErrToken, printable(header.Type))
	}
	for _, known := range algorithms {
		if header.Algorithm == known {
			return nil
		}
	}
	return fmt.Errorf("%w: it is signed by %s, which proves nothing here", ErrToken, printable(header.Algorithm))
}

// check says whether claims that were signed are of this issuer, for this client, for that request, and of now.
func (c Claims) check(issuer, client, nonce string, now time.Time) error {
	if c.text("iss") != issuer {
		return fmt.Errorf("%w: it is of another issuer, %s", ErrToken, printable(c.text("iss")))
	}
	var audience []string
	if json.Unmarshal(c["aud"], &audience) != nil {
		audience = []string{c.text("aud")}
	}
	switch by := c["azp"]; {
	case len(audience) == 0 || audience[0] == "":
		return fmt.Errorf("%w: it does not say for whom it is", ErrToken)
	case len(audience) != 1 || audience[0] != client:
		return fmt.Errorf("%w: it is for %s, and not for %s alone", ErrToken, printable(strings.Join(audience, ", ")), client)
	case by != nil && c.text("azp") != client:
		return fmt.Errorf("%w: it was made for another client, %s", ErrToken, printable(c.text("azp")))
	case c.text("typ") != "" && c.text("typ") != "ID": // Keycloak names the kind of a token there
		return fmt.Errorf("%w: it is a token of kind %s, and not an ID token", ErrToken, printable(c.text("typ")))
	case c.text("sub") == "":
		return fmt.Errorf("%w: it names no subject", ErrToken)
	case nonce != "" && subtle.ConstantTimeCompare([]byte(c.text("nonce")), []byte(nonce)) != 1:
		return fmt.Errorf("%w: it is the answer to another login", ErrToken)
	}
	return c.checkTimes(now)
}

// checkTimes says which clock may be wrong: a bootstrap host may have no other source of time.
func (c Claims) checkTimes(now time.Time) error {
	ends, hasEnd := c.time("exp")
	made, isMade := c.time("iat")
	from, hasFrom := c.time("nbf")
	here := now.UTC().Format(time.RFC3339)
	switch {
	case !hasEnd || !isMade || c["nbf"] != nil && !hasFrom:
		return fmt.Errorf("%w: it does not say when it was made and when it ends", ErrToken)
	case now.Sub(ends) >= clockSlack:
		return fmt.Errorf("%w: it expired at %s, and the clock of this host says %s: log in again; if that clock is wrong, set it", ErrToken, ends.UTC().Format(time.RFC3339), here)
	case made.Sub(now) > clockSlack, hasFrom && from.Sub(now) > clockSlack:
		if hasFrom && from.After(made) {
			made = from
		}
		return fmt.Errorf("%w: it is valid from %s, and the clock of this host says %s: one of the two clocks, of the issuer or of this host, is wrong", ErrToken, made.UTC().Format(time.RFC3339), here)
	case now.Sub(made) > mostAge:
		return fmt.Errorf("%w: it was made at %s, and counts for a day at most: log in again", ErrToken, made.UTC().Format(time.RFC3339))
	}
	return nil
}

// unverified are the claims of a token that may be anybody's.
func unverified(raw string) (Claims, error) {
	if err := checkForm(raw); err != nil {
		return nil, err
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[1])
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a signed ID token", ErrToken)
	}
	return jsonOf(payload)
}

// text is a claim that is a string; empty for others.
func (c Claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// time is a claim that is a time, in seconds since 1970, perhaps with a fraction.
func (c Claims) time(name string) (time.Time, bool) {
	var n float64
	if json.Unmarshal(c[name], &n) != nil || n <= 0 || n > endOfTime {
		return time.Time{}, false
	}
	return time.Unix(int64(n), 0), true
}
