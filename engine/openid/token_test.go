package openid

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	double "github.com/slipway-gitops/slipway/tests/oidc"
)

// provider is a provider of OpenID Connect with a person, ana@example.org, and an issuer that asks it.
func provider(t *testing.T) (*double.Provider, *Issuer) {
	t.Helper()
	p := double.Start()
	t.Cleanup(p.Close)
	p.Change(func(s *double.State) {
		s.Clients["slipway-cli"] = double.Client{Loopback: true, Device: true}
		s.Clients["other"] = double.Client{}
		s.User = map[string]any{"email": "ana@example.org", "email_verified": true, "groups": []string{"ops", "all"}}
	})
	ca := filepath.Join(t.TempDir(), "issuer.pem")
	if err := os.WriteFile(ca, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	return p, &Issuer{URL: p.URL, Authority: ca}
}

// What is not exactly a signed ID token of now, of this issuer, for this client alone, is refused, and says why.
func TestVerify(t *testing.T) {
	p, i := provider(t)
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	claim := func(name string, value any) func(*double.Token) {
		return func(x *double.Token) { x.Claims[name] = value }
	}
	header := func(name string, value any) func(*double.Token) {
		return func(x *double.Token) { x.Header[name] = value }
	}
	for name, x := range map[string]struct {
		change func(*double.Token)
		raw    func(string) string
		nonce  string
		says   string // empty for a token that is right
	}{
		"right":                           {},
		"right, with its nonce":           {change: claim("nonce", "n-1"), nonce: "n-1"},
		"audience as a list of one":       {change: claim("aud", []string{"slipway-cli"})},
		"for its client":                  {change: claim("azp", "slipway-cli")},
		"without a type":                  {change: func(x *double.Token) { delete(x.Header, "typ") }},
		"without the name of a key":       {change: func(x *double.Token) { delete(x.Header, "kid") }},
		"a bit of the future":             {change: claim("iat", at(30*time.Second))},
		"just over":                       {change: claim("exp", at(-30*time.Second))},
		"wrong audience":                  {change: claim("aud", "grafana"), says: "it is for grafana, and not for slipway-cli alone"},
		"audience of two":                 {change: claim("aud", []string{"slipway-cli", "other"}), says: "it is for slipway-cli, other, and not for slipway-cli alone"},
		"no audience":                     {change: claim("aud", nil), says: "does not say for whom"},
		"of another client":               {change: claim("azp", "other"), says: "it was made for another client, other"},
		"azp is no text":                  {change: claim("azp", 7), says: "it was made for another client"},
		"wrong nonce":                     {change: claim("nonce", "n-2"), nonce: "n-1", says: "it is the answer to another login"},
		"no nonce":                        {nonce: "n-1", says: "it is the answer to another login"},
		"nonce of another case":           {change: claim("NONCE", "n-1"), nonce: "n-1", says: "it is the answer to another login"},
		"another issuer":                  {change: claim("iss", "https://evil.example.org"), says: "it is of another issuer, https://evil.example.org"},
		"the issuer twice, by case":       {change: func(x *double.Token) { x.Claims["ISS"], x.Claims["iss"] = x.Claims["iss"], "https://evil" }, says: "not accepted"},
		"alg none":                        {change: header("alg", "none"), says: "it is not a signed ID token"},
		"alg none with a signature":       {change: header("alg", "none"), raw: func(s string) string { return s + "AAAA" }, says: "it is signed by none, which proves nothing here"},
		"alg NonE":                        {change: header("alg", "NonE"), raw: func(s string) string { return s + "AAAA" }, says: "it is signed by NonE"},
		"HS256 with the public key":       {change: header("alg", "HS256"), says: "it is signed by HS256, which proves nothing here"},
		"PS256 named, RS256 signed":       {change: header("alg", "RS256"), raw: func(s string) string { return rewritten(s, "RS256", "PS256") }, says: "signature"},
		"signed by a stranger":            {change: (*double.Token).Stranger, says: "signature"},
		"with another key in it":          {change: func(x *double.Token) { x.Stranger(); x.Header["jwk"] = map[string]any{"kty": "oct", "k": "AAAA"} }, says: "not accepted"},
		"with the address of other keys":  {change: func(x *double.Token) { x.Stranger(); x.Header["jku"] = "https://evil.example.org/keys" }, says: "not accepted"},
		"with a critical header":          {change: header("crit", []string{"exp"}), says: "not accepted"},
		"claims that were changed":        {raw: func(s string) string { return rewritten(s, "ana@example.org", "eve@example.org") }, says: "signature"},
		"expired":                         {change: claim("exp", at(-2*time.Minute)), says: "it expired at "},
		"of the future":                   {change: claim("iat", at(2*time.Minute)), says: "one of the two clocks, of the issuer or of this host, is wrong"},
		"not before the future":           {change: claim("nbf", at(2*time.Minute)), says: "it is valid from"},
		"nbf is no time":                  {change: claim("nbf", "soon"), says: "not accepted"},
		"for years":                       {change: func(x *double.Token) { x.Claims["iat"], x.Claims["exp"] = at(-25*time.Hour), at(9000*time.Hour) }, says: "counts for a day at most"},
		"no end":                          {change: func(x *double.Token) { delete(x.Claims, "exp") }, says: "does not say when"},
		"no beginning":                    {change: func(x *double.Token) { delete(x.Claims, "iat") }, says: "does not say when"},
		"the end of time":                 {change: claim("exp", 1e300), says: "not accepted"},
		"an end before 1970":              {change: claim("exp", -5), says: "does not say when"},
		"no subject":                      {change: claim("sub", ""), says: "names no subject"},
		"an access token":                 {change: header("typ", "at+jwt"), says: "it is of type at+jwt, and not an ID token"},
		"a logout token":                  {change: header("typ", "logout+jwt"), says: "it is of type logout+jwt"},
		"an access token of Keycloak":     {change: claim("typ", "Bearer"), says: "it is a token of kind Bearer"},
		"huge claims":                     {change: claim("x", strings.Repeat("x", mostToken)), says: "it has more than 65536 bytes"},
		"no token":                        {raw: func(string) string { return "a.b.c" }, says: "not a signed ID token"},
		"nothing":                         {raw: func(string) string { return "" }, says: "not a signed ID token"},
		"JSON":                            {raw: func(s string) string { return `{"payload":"` + s + `"}` }, says: "not a signed ID token"},
		"five parts, which is encryption": {raw: func(s string) string { return s + ".x.y" }, says: "not a signed ID token"},
		"a header that is no object":      {raw: func(s string) string { return "W10" + s[strings.IndexByte(s, '.'):] }, says: "not a signed ID token"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Change(func(s *double.State) { s.Token, s.Raw = x.change, x.raw })
			// Keys that anybody can name are fetched once in a while only: have them fetched for each case.
			own := &Issuer{URL: i.URL, Authority: i.Authority}
			c, err := own.Verify(t.Context(), p.IDToken("slipway-cli", ""), "slipway-cli", x.nonce)
			switch {
			case x.says == "" && (err != nil || c.text("email") != "ana@example.org"):
				t.Errorf("got %v, %v", c, err)
			case x.says != "" && (!errors.Is(err, ErrToken) || !strings.Contains(err.Error(), x.says)):
				t.Errorf("got %v, want %q", err, x.says)
			}
		})
	}
}

// rewritten is a token whose header or claims have another text, with the signature of before.
func rewritten(token, old, now string) string {
	parts := strings.Split(token, ".")
	for n := range 2 {
		b, _ := base64.RawURLEncoding.DecodeString(parts[n])
		parts[n] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(b), old, now, 1)))
	}
	return strings.Join(parts, ".")
}

// A host whose clock is wrong says so, instead of that the password is wrong.
func TestClockOff(t *testing.T) {
	p, i := provider(t)
	for off, says := range map[time.Duration]string{time.Hour: "and the clock of this host says", -time.Hour: "is wrong", 30 * time.Second: "", -30 * time.Second: ""} {
		i.Now = func() time.Time { return time.Now().Add(off) }
		_, err := i.Verify(t.Context(), p.IDToken("slipway-cli", ""), "slipway-cli", "")
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", off, err, says)
		}
	}
}

// New keys are fetched when a token needs them, and not for every token that names one.
func TestKeysChange(t *testing.T) {
	p, i := provider(t)
	verify := func(token string) error {
		_, err := i.Verify(t.Context(), token, "slipway-cli", "")
		return err
	}
	old := p.IDToken("slipway-cli", "")
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	p.Rotate()
	now := p.IDToken("slipway-cli", "")
	if err := verify(now); !errors.Is(err, ErrToken) {
		t.Errorf("within moments of the last fetch: %v", err)
	}
	i.known.last.rest(t)
	err := verify(now)
	for n := 0; err != nil && n < 1000; n++ { // it may have joined the fetch that was refused
		err = verify(now)
	}
	if err != nil {
		t.Errorf("after the keys have changed: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); verify(old) == nil; { // the library answers before it keeps the new keys
		if time.Now().After(end) {
			t.Fatal("the key that was taken away still counts")
		}
	}
	before := p.Asked("/keys")
	for range 50 {
		if err := verify(old); err == nil {
			t.Fatal("the key that was taken away still counts")
		}
	}
	if n := p.Asked("/keys") - before; n != 0 {
		t.Errorf("50 tokens of an unknown key had the keys fetched %d times", n)
	}
}

// rest has the last fetch of keys be long ago.
func (d *described) rest(t *testing.T) {
	t.Helper()
	d.seldom.mu.Lock()
	defer d.seldom.mu.Unlock()
	d.seldom.last = time.Time{}
}

// An issuer that is away is asked again, and one that was known goes on to count.
func TestIssuerAway(t *testing.T) {
	p, i := provider(t)
	token := p.IDToken("slipway-cli", "")
	p.Change(func(s *double.State) { s.Away = true })
	for range 3 {
		if _, err := i.Verify(t.Context(), token, "slipway-cli", ""); !errors.Is(err, ErrAway) || errors.Is(err, ErrToken) || !strings.Contains(err.Error(), p.URL) {
			t.Errorf("away at the start: %v", err)
		}
	}
	if n := p.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	p.Change(func(s *double.State) { s.Away = false })
	i.known.forget()
	if _, err := i.Verify(t.Context(), token, "slipway-cli", ""); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	for _, change := range []func(*double.State){func(s *double.State) { s.Away = true }, func(s *double.State) { s.Away, s.Broken = false, true }} {
		p.Change(change)
		i.known.forget()
		if _, err := i.Verify(t.Context(), token, "slipway-cli", ""); err != nil {
			t.Errorf("away later: %v", err)
		}
	}
	p.Rotate()
	i.known.last.rest(t)
	if _, err := i.Verify(t.Context(), p.IDToken("slipway-cli", ""), "slipway-cli", ""); !errors.Is(err, ErrAway) {
		t.Errorf("with a key that cannot be fetched: %v", err)
	}
}

func TestDescriptionLies(t *testing.T) {
	for says, change := range map[string]func(map[string]any){
		"its description is that of another issuer, https://evil.example.org": func(d map[string]any) { d["issuer"] = "https://evil.example.org" },
		"its description is that of another issuer":                           func(d map[string]any) { d["issuer"] = d["issuer"].(string) + "/" },
		"no HTTPS address as token_endpoint, but http://x":                    func(d map[string]any) { d["token_endpoint"] = "http://x" },
		"no HTTPS address as jwks_uri":                                        func(d map[string]any) { delete(d, "jwks_uri") },
		"no HTTPS address as authorization_endpoint, but javascript:":         func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
		"no HTTPS address as device_authorization_endpoint":                   func(d map[string]any) { d["device_authorization_endpoint"] = "ftp://x" },
		"more than 1048576 bytes":                                             func(d map[string]any) { d["x"] = strings.Repeat("x", 2*mostAnswer) },
	} {
		p, i := provider(t)
		p.Change(func(s *double.State) { s.Describe = change })
		if err := i.Try(t.Context()); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), says) || len(err.Error()) > 1000 {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	p, i := provider(t)
	i.Authority = ""
	if err := i.Try(t.Context()); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that is not trusted: %v", err)
	}
	if i = (&Issuer{URL: p.URL + "/other"}); i.Try(t.Context()) == nil {
		t.Error("an issuer that is not there")
	}
}

func TestPersonOf(t *testing.T) {
	many := make([]string, mostGroups+1)
	for n := range many {
		many[n] = "g" + strings.Repeat("x", n)
	}
	whole := access.Issuer{URL: "https://issuer", Name: "email", Groups: "groups", Domains: []string{"example.org"}}
	byName := access.Issuer{URL: "https://issuer", Name: "sub", Groups: "https://example.org/groups"}
	for name, x := range map[string]struct {
		issuer access.Issuer
		claims string
		who    string
		groups string
		says   string
	}{
		"right":                       {whole, `{"email":"ana@example.org","email_verified":true,"groups":["ops","all","ops"]}`, "ana@example.org", "all ops", ""},
		"verified in text":            {whole, `{"email":"ana@example.org","email_verified":"true"}`, "ana@example.org", "", ""},
		"not verified":                {whole, `{"email":"ana@example.org","email_verified":false}`, "", "", "has not verified the e-mail address ana@example.org"},
		"not said to be verified":     {whole, `{"email":"ana@example.org"}`, "", "", "has not verified"},
		"verified by 1":               {whole, `{"email":"ana@example.org","email_verified":1}`, "", "", "has not verified"},
		"verified, written otherwise": {whole, `{"email":"ana@example.org","Email_Verified":true}`, "", "", "has not verified"},
		"another domain":              {whole, `{"email":"ana@example.org.evil.net","email_verified":true}`, "", "", "in none of the domains"},
		"a domain within":             {whole, `{"email":"ana@sub.example.org","email_verified":true}`, "", "", "in none of the domains"},
		"two signs":                   {whole, `{"email":"ana@evil.net@example.org","email_verified":true}`, "", "", "no e-mail address"},
		"a domain in capitals":        {whole, `{"email":"ana@Example.ORG","email_verified":true}`, "ana@Example.ORG", "", ""},
		"no address":                  {whole, `{"email_verified":true}`, "", "", `no text as claim "email"`},
		"no sign":                     {whole, `{"email":"ana","email_verified":true}`, "", "", "no e-mail address"},
		"an address that is a list":   {whole, `{"email":["ana@example.org"],"email_verified":true}`, "", "", `no text as claim "email"`},
		"markup":                      {whole, `{"email":"<script>alert(1)</script>@example.org","email_verified":true}`, "<script>alert(1)</script>@example.org", "", ""},
		"a line":                      {whole, `{"email":"ana@example.org\nroot","email_verified":true}`, "", "", "the name has the character"},
		"a line of the access file":   {whole, `{"email":"ana: approver@example.org","email_verified":true}`, "", "", "the name has the character"},
		"another direction":           {whole, `{"email":"ana\u202e@example.org","email_verified":true}`, "", "", "the name has the character"},
		"letters that look alike":     {whole, `{"email":"аna@example.org","email_verified":true}`, "", "", "the name has the character"},
		"a long name":                 {whole, `{"email":"` + strings.Repeat("a", 200) + `@example.org","email_verified":true}`, "", "", "more than 128 bytes"},
		"no groups":                   {whole, `{"email":"ana@example.org","email_verified":true,"groups":null}`, "ana@example.org", "", ""},
		"one group in text":           {whole, `{"email":"ana@example.org","email_verified":true,"groups":"ops"}`, "ana@example.org", "ops", ""},
		"several groups in text":      {whole, `{"email":"ana@example.org","email_verified":true,"groups":"ops,admins"}`, "ana@example.org", "ops,admins", ""},
		"groups that are an object":   {whole, `{"email":"ana@example.org","email_verified":true,"groups":{"ops":true}}`, "", "", "not a list of names"},
		"groups that are numbers":     {whole, `{"email":"ana@example.org","email_verified":true,"groups":["ops",7]}`, "", "", "not a list of names"},
		"groups that cannot be":       {whole, `{"email":"ana@example.org","email_verified":true,"groups":["ops","a\nb","","` + strings.Repeat("g", 300) + `"]}`, "ana@example.org", "ops", ""},
		"too many groups":             {whole, `{"email":"ana@example.org","email_verified":true,"groups":["` + strings.Join(many, `","`) + `"]}`, "", "", "names 201 groups"},
		"groups elsewhere":            {whole, `{"email":"ana@example.org","email_verified":true,"_claim_names":{"groups":"src1"}}`, "", "", "as there are too many"},
		"by subject":                  {byName, `{"sub":"u-17","email":"eve@evil.net","https://example.org/groups":["ops"],"groups":["admins"]}`, "u-17", "ops", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var c Claims
			if err := json.Unmarshal([]byte(x.claims), &c); err != nil {
				t.Fatal(err)
			}
			who, err := personOf(&x.issuer, c)
			switch {
			case x.says == "" && (err != nil || who.Name != x.who || strings.Join(who.Groups, " ") != x.groups || who.Kind != access.OIDC || who.Issuer != "https://issuer"):
				t.Errorf("got %+v, %v", who, err)
			case x.says != "" && (!errors.Is(err, ErrToken) || !strings.Contains(err.Error(), x.says)):
				t.Errorf("got %+v, %v, want %q", who, err, x.says)
			}
		})
	}
}

func FuzzClaims(f *testing.F) {
	f.Add(`{"email":"ana@example.org","email_verified":true,"groups":["ops"],"exp":1,"iat":1e3}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := jsonOf([]byte(text))
		if err != nil {
			return
		}
		claims := Claims(c)
		_ = claims.check("https://issuer", "x", "", time.Now())
		who, err := personOf(&access.Issuer{URL: "https://issuer", Name: "email", Groups: "groups"}, c)
		if err == nil && (access.CheckName(who.Name) != nil || !claims.isTrue("email_verified") || len(who.Groups) > mostGroups) {
			t.Errorf("%q is %+v", text, who)
		}
	})
}
