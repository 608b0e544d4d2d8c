package web

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/browser"
	"github.com/slipway-gitops/slipway/tests/oidc"
)

// visited is a page in a network, at which persons log in by OpenID Connect.
type visited struct {
	t        *testing.T
	url      string
	access   string // the file
	lines    string
	provider *oidc.Provider
	fleet    *fleet
	as       func(mail string) *http.Client
}

const logins = `role viewer: read audit
role all: read records logs files audit approve disapprove take-over pause resume retry verify quarantine release incident
person ana@example.org: all
person bob@example.org: viewer
group ops: viewer
`

// secretOfPage is that of the client at the issuer.
const secretOfPage = "s3cret of the page"

func visiting(t *testing.T) *visited {
	t.Helper()
	v := &visited{t: t, provider: oidc.Start(), fleet: &fleet{}}
	t.Cleanup(v.provider.Close)
	dir := t.TempDir()
	address, as := inFolder(t, v.fleet, dir, logins)
	v.url, v.as, v.access = address, as, filepath.Join(dir, "access.conf")
	v.write("issuer.pem", string(v.provider.CA))
	v.write("secret", secretOfPage+"\n")
	v.lines = logins + "oidc issuer: " + v.provider.URL + "\noidc client: slipway\noidc secret: " + filepath.Join(dir, "secret") + "\noidc page: " + address +
		"\noidc command-client: slipway-cli\noidc authority: " + filepath.Join(dir, "issuer.pem") + "\noidc groups: groups\noidc domains: example.org\n"
	v.allow(v.lines)
	v.provider.Change(func(s *oidc.State) {
		s.Clients["slipway"] = oidc.Client{Secret: secretOfPage, Redirects: []string{address + "/login/callback"}}
		s.Clients["slipway-cli"] = oidc.Client{Loopback: true, Device: true}
	})
	v.person("ana@example.org")
	return v
}

// allow writes another access file.
func (v *visited) allow(lines string) { v.write("access.conf", lines) }

func (v *visited) write(name, text string) {
	v.t.Helper()
	path := filepath.Join(filepath.Dir(v.access), name)
	if err := os.WriteFile(path+".new", []byte(text), 0o640); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		v.t.Fatal(err)
	}
}

// person is who is logged in at the issuer.
func (v *visited) person(mail string, groups ...string) {
	v.provider.Change(func(s *oidc.State) {
		s.User = map[string]any{"email": mail, "email_verified": true, "groups": groups, "sub": "of " + mail}
	})
}

// userAgent is a browser with cookies, which follows redirections to this page and to the issuer.
type userAgent struct {
	*visited
	client *http.Client
	went   []string // where it was sent
}

func (v *visited) browser() *userAgent {
	b := &userAgent{visited: v}
	jar, err := cookiejar.New(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	c := v.as("")
	own := c.Transport.(*http.Transport)
	own.TLSClientConfig.RootCAs.AppendCertsFromPEM(v.provider.CA)
	b.client = &http.Client{Transport: own, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		b.went = append(b.went, r.URL.String())
		r.Header.Set("Sec-Fetch-Site", "cross-site") // as a browser says once another site was among the steps
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
		return nil
	}}
	return b
}

func (b *userAgent) do(method, at, form string, headers ...string) (status int, text string, header http.Header) {
	b.t.Helper()
	if strings.HasPrefix(at, "/") {
		at = b.url + at
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, strings.NewReader(form))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	b.went = nil
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, html.UnescapeString(string(body)), resp.Header
}

// want asks for a page.
func (b *userAgent) want(what, at string, status int, says string) string {
	b.t.Helper()
	got, text, _ := b.do("GET", at, "")
	if got != status || !strings.Contains(text, says) {
		b.t.Errorf("%s: %s answers %d, want %d and %q:\n%s", what, at, got, status, says, text)
	}
	return text
}

// cookies are those that the page has set, by name.
func (b *userAgent) cookies() map[string]string {
	u, _ := url.Parse(b.url)
	all := map[string]string{}
	for _, c := range b.client.Jar.Cookies(u) {
		all[c.Name] = c.Value
	}
	return all
}

func (b *userAgent) setCookie(name, value string) {
	u, _ := url.Parse(b.url)
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
}

const (
	sessionCookie = "__Host-slipway-session"
	attemptCookie = "__Host-slipway-login"
)

// logIn logs the person in by the link of the page.
func (b *userAgent) logIn() {
	b.t.Helper()
	b.want("login", "/login/start?to=%2Fsites%2Fberlin%2Fnodes", 200, "web-2")
}

func TestLogIn(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	text := b.want("nobody", "/sites/berlin/nodes?q=web", 401, "You log in at "+v.provider.URL+" and come back here")
	if strings.Contains(text, "web-2") {
		t.Error("the page on which persons log in shows nodes")
	}
	link := regexp.MustCompile(`href="(/login/start[^"]*)"`).FindStringSubmatch(text)
	if link == nil {
		t.Fatalf("no link to log in:\n%s", text)
	}
	style := regexp.MustCompile(`href="(/static/[^"]*css)"`).FindStringSubmatch(text)
	b.want("the style of it", style[1], 200, "--paper")
	text = b.want("login", link[1], 200, "web-2")
	if !strings.Contains(text, "ana@example.org (OIDC "+v.provider.URL+")") || !strings.Contains(text, `action="/logout"`) {
		t.Errorf("the page does not say who is logged in:\n%.2000s", text)
	}
	if n := len(b.went); n != 3 || b.went[2] != v.url+"/sites/berlin/nodes?q=web" || !strings.HasPrefix(b.went[0], v.provider.URL+"/authorize?") {
		t.Errorf("went %q", b.went)
	}
	asked, _ := url.Parse(b.went[0])
	q := asked.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 || q.Get("state") == q.Get("nonce") || q.Get("response_type") != "code" || q.Get("scope") != "openid email" {
		t.Errorf("asked for %v", q)
	}
	if all := b.cookies(); len(all) != 1 || len(all[sessionCookie]) < 26 {
		t.Errorf("cookies: %v", all)
	}
	// Approving is for persons, and the audit log says by which issuer.
	at := "/sites/berlin/do/pause"
	if status, text, _ := b.do("POST", at, "reason=lunch&sure=yes"); status != 200 || !strings.Contains(text, "done") {
		t.Errorf("pause: %d %s", status, text)
	}
	entry := v.fleet.audit[len(v.fleet.audit)-1]
	if entry.By != "ana@example.org" || entry.Kind != "oidc" || entry.Issuer != v.provider.URL || entry.From != "127.0.0.1" {
		t.Errorf("the audit log has %+v", entry)
	}
	if o := v.fleet.orders[len(v.fleet.orders)-1]; o.By != "ana@example.org (OIDC "+v.provider.URL+")" {
		t.Errorf("the order has %q", o.By)
	}
	b.want("the audit log", "/sites/berlin/audit", 200, v.provider.URL)
	b.want("JSON", "/api/v1/whoami", 200, `"kind":"oidc"`)
}

func TestApproveByOIDC(t *testing.T) {
	b := visiting(t).browser()
	b.logIn()
	status, text, _ := b.do("POST", "/sites/berlin/do/approve", "digest="+digestOfSet+"&sure=yes")
	if status != 200 || len(b.fleet.orders) != 1 || b.fleet.orders[0].Digest != digestOfSet {
		t.Errorf("got %d, %v: %s", status, b.fleet.orders, text)
	}
}

// The cookie of a browser counts for pages and for reads, never for a form of another site.
func TestFormsOfOthers(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	b.logIn()
	const form = "reason=x&sure=yes"
	for name, headers := range map[string][]string{
		"cross-site":        {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.org"},
		"same site":         {"Sec-Fetch-Site", "same-site", "Origin", "https://other.example.org"},
		"an old browser":    {"Sec-Fetch-Site", "", "Origin", "https://evil.example.org"},
		"no word of itself": {"Sec-Fetch-Site", ""},
		"origin null":       {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		if status, text, _ := b.do("POST", "/sites/berlin/do/pause", form, headers...); status != 403 {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status, text, _ := b.do("POST", "/logout", form, headers...); status != 403 {
			t.Errorf("logout, %s: %d %s", name, status, text)
		}
	}
	if status, text, _ := b.do("POST", "/api/v1/sites/berlin/pause", `{"all":true,"reason":"x"}`, "Content-Type", "application/json"); status != 401 || !strings.Contains(text, "use the forms of the page") {
		t.Errorf("API: %d %s", status, text)
	}
	if len(v.fleet.orders) != 0 {
		t.Errorf("orders: %v", v.fleet.orders)
	}
	b.want("still logged in", "/sites/berlin/nodes", 200, "web-2")
	// No other site begins a login, which shows the page instead.
	status, text, _ := v.browser().do("GET", "/login/start", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if status != 200 || !strings.Contains(text, "/login/start") {
		t.Errorf("start from another site: %d %s", status, text)
	}
}

func TestLogOut(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	b.logIn()
	before := b.cookies()[sessionCookie]
	if status, text, _ := b.do("POST", "/logout", "x=y"); status != 200 || !strings.Contains(text, "You are logged out of Slipway") || len(b.cookies()) != 0 {
		t.Errorf("got %d %s, cookies %v", status, text, b.cookies())
	}
	b.setCookie(sessionCookie, before)
	b.want("with the cookie of before", "/sites/berlin/nodes", 401, "Log in")
	b.want("with it, the API", "/api/v1/sites", 401, "your login has ended")
}

// Whoever is logged in can log out, also while the access file is wrong or names no issuer any more.
func TestLogOutWhateverTheAccessFileSays(t *testing.T) {
	for name, change := range map[string]func(lines string) string{
		"a wrong line": func(lines string) string { return lines + "nonsense\n" },
		"no issuer":    func(string) string { return logins },
	} {
		t.Run(name, func(t *testing.T) {
			v := visiting(t)
			b := v.browser()
			b.logIn()
			before := b.cookies()[sessionCookie]
			v.allow(change(v.lines))
			if status, _, _ := b.do("POST", "/logout", "x=y", "Sec-Fetch-Site", "cross-site"); status != 403 || len(b.cookies()) != 1 {
				t.Errorf("a form of another site: %d, cookies %v", status, b.cookies())
			}
			status, text, _ := b.do("POST", "/logout", "x=y")
			if status != 200 || !strings.Contains(text, "You are logged out of Slipway") || strings.Contains(text, "/login/start") || len(b.cookies()) != 0 {
				t.Errorf("got %d %s, cookies %v", status, text, b.cookies())
			}
			v.allow(v.lines)
			b.setCookie(sessionCookie, before)
			b.want("with the cookie of before", "/sites/berlin/nodes", 401, "Log in")
		})
	}
}

// A session ends with the last line that is for the person, or with the issuer.
func TestSessionEndsWithTheLine(t *testing.T) {
	for name, x := range map[string]struct {
		change func(lines string) string
		status int
	}{
		"without the person": {func(s string) string { return strings.Replace(s, "person ana@example.org: all\n", "", 1) }, 401},
		"without the issuer": {func(string) string { return logins }, 401},
		"another client": {func(s string) string {
			return strings.Replace(s, "oidc client: slipway\n", "oidc client: slipway2\n", 1)
		}, 401},
		"another issuer": {func(s string) string {
			return strings.Replace(s, "oidc issuer: ", "oidc issuer: https://other.example.org/", 1)
		}, 401},
		"another claim of groups":   {func(s string) string { return strings.Replace(s, "oidc groups: groups\n", "oidc groups: roles\n", 1) }, 401},
		"another claim of the name": {func(s string) string { return s + "oidc name: sub\n" }, 401},
		"another domain": {func(s string) string {
			return strings.Replace(s, "oidc domains: example.org\n", "oidc domains: example.com\n", 1)
		}, 401},
		"another authority": {func(s string) string {
			return strings.Replace(s, "/issuer.pem\n", "/another.pem\n", 1)
		}, 401},
		"another time":  {func(s string) string { return s + "oidc session: 1h\n" }, 200},
		"another scope": {func(s string) string { return s + "oidc scopes: profile\n" }, 200},
		"another role":  {func(s string) string { return strings.Replace(s, "ana@example.org: all", "ana@example.org: viewer", 1) }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			v := visiting(t)
			b := v.browser()
			b.logIn()
			v.allow(x.change(v.lines))
			b.want(name, "/sites/berlin/nodes", x.status, "")
			v.allow(v.lines)
			b.want("and after that", "/sites/berlin/nodes", x.status, "")
		})
	}
	t.Run("while the file is wrong", func(t *testing.T) {
		v := visiting(t)
		b := v.browser()
		b.logIn()
		v.allow(v.lines + "nonsense\n")
		b.want("logged in", "/sites/berlin/nodes", 403, "")
		v.browser().want("nobody", "/sites/berlin/nodes", 503, "access file on the daemon's host is wrong")
		v.allow(v.lines)
		b.want("and right again", "/sites/berlin/nodes", 200, "web-2")
	})
}

// A page that is open ends with its session, and with no other.
func TestOpenPageEndsWithTheSession(t *testing.T) {
	t.Parallel()
	v := visiting(t)
	one, two := v.browser(), v.browser()
	one.logIn()
	two.logIn()
	follow := func(b *userAgent) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/sites/berlin/live?page=%2Fsites%2Fberlin%2Fnodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.client.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	first, second := follow(one), follow(two)
	one.do("POST", "/logout", "x=y")
	if _, err := io.Copy(io.Discard, first.Body); err != nil { // within a heartbeat
		t.Error(err)
	}
	v.fleet.happens("Boots after that")
	lines := bufio.NewScanner(second.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.Contains(lines.Text(), "Boots after that") {
	}
	if err := lines.Err(); err != nil || !strings.Contains(lines.Text(), "Boots after that") {
		t.Errorf("the other session is shown nothing more: %v", err)
	}
}

// What groups allow is theirs alone: two persons who see the same page each see their own.
func TestGroups(t *testing.T) {
	v := visiting(t)
	v.person("dan@example.org", "ops", "others")
	dan := v.browser()
	dan.logIn()
	if status, text, _ := dan.do("POST", "/sites/berlin/do/pause", "reason=x&sure=yes"); status != 403 {
		t.Errorf("a viewer pauses: %d %s", status, text)
	}
	v.allow(strings.Replace(v.lines, "group ops", "group dev", 1))
	dan.want("a group without a line", "/sites/berlin/nodes", 401, "")
	v.person("dan@example.org", "others")
	v.browser().want("in no group that counts", "/login/start", 403, `has no line for dan@example.org (OIDC `+v.provider.URL+`), and none for a group`)
}

// Each way to be somebody else, or to have somebody else be you, ends on a page that says why.
func TestUnkindLogins(t *testing.T) {
	v := visiting(t)
	fails := func(name, says string, change func(*oidc.State)) {
		t.Run(name, func(t *testing.T) {
			v.provider.Change(change)
			defer v.provider.Change(func(s *oidc.State) {
				s.Token, s.Raw, s.Deny, s.Away, s.Broken = nil, nil, false, false, false
			})
			b := v.browser()
			status, text, _ := b.do("GET", "/login/start", "")
			if status < 400 || !strings.Contains(text, says) || len(b.cookies()) != 0 {
				t.Errorf("got %d, want %q:\n%s\ncookies: %v", status, says, text, b.cookies())
			}
			if strings.Contains(text, "<script>alert") && !strings.Contains(text, "&lt;") && !strings.Contains(html.EscapeString(text), "&lt;script&gt;alert") {
				t.Error("markup")
			}
		})
	}
	claim := func(name string, value any) func(*oidc.State) {
		return func(s *oidc.State) { s.Token = func(x *oidc.Token) { x.Claims[name] = value } }
	}
	fails("nonce of another login", "it is the answer to another login", claim("nonce", "another"))
	fails("token for the command line", "not accepted", claim("aud", "slipway-cli"))
	fails("unsigned", "not a signed ID token", func(s *oidc.State) { s.Token = func(x *oidc.Token) { x.Header["alg"] = "none" } })
	fails("HS256", "signed by HS256", func(s *oidc.State) { s.Token = func(x *oidc.Token) { x.Header["alg"] = "HS256" } })
	fails("not verified", "has not verified the e-mail address ana@example.org", claim("email_verified", false))
	fails("another domain", "in none of the domains", claim("email", "ana@evil.example.net"))
	fails("markup", "in none of the domains", claim("email", "<img/src=x>@evil"))
	fails("the person denies", "the issuer says: access_denied the person said no", func(s *oidc.State) { s.Deny = true })
	fails("the issuer breaks", "the issuer cannot be used now", func(s *oidc.State) { s.Token = func(*oidc.Token) { panic(http.ErrAbortHandler) } })
	fails("no ID token", "the issuer gave no ID token", func(s *oidc.State) { s.Raw = func(string) string { return "" } })
	v.person("ana@example.org")
	v.browser().logIn() // and all is well again
}

// steps begins a login, and gives where the issuer sends the browser back to.
func (b *userAgent) steps() (callback string) {
	b.t.Helper()
	follow := b.client.CheckRedirect
	defer func() { b.client.CheckRedirect = follow }()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, header := b.do("GET", "/login/start?to=%2Fsites%2Fberlin", "")
	_, _, header = b.do("GET", header.Get("Location"), "")
	return header.Get("Location")
}

func TestStatesAreOfOneBrowserOnce(t *testing.T) {
	v := visiting(t)
	victim, thief := v.browser(), v.browser()
	stolen := victim.steps()
	thief.want("a state that was stolen", stolen, 403, "this browser has not begun a login here")
	victim.want("its own browser", stolen, 200, "Overview")
	victim.want("once more", stolen, 403, "this browser has not begun a login here")

	// Login CSRF: the victim is sent to the end of a login that the thief has begun, also while the victim logs in.
	victim = v.browser()
	victim.want("without having begun", thief.steps(), 403, "this browser has not begun a login here")
	victim.steps()
	victim.want("in the middle of its own", thief.steps(), 403, "this is the answer to another login")
	if len(victim.cookies()) != 0 {
		t.Errorf("the victim has cookies %v", victim.cookies())
	}

	// The cookie of a login that was used is of no more use.
	victim = v.browser()
	back := victim.steps()
	used := victim.cookies()[attemptCookie]
	victim.want("a login", back, 200, "Overview")
	victim.setCookie(attemptCookie, used)
	victim.want("its cookie again", back, 403, "this login was used already")

	// A code that the issuer has given already is refused by it, and nobody is logged in.
	one, two := v.browser(), v.browser()
	first, _ := url.Parse(one.steps())
	second, _ := url.Parse(two.steps())
	q := second.Query()
	q.Set("code", first.Query().Get("code"))
	second.RawQuery = q.Encode()
	two.want("the code of another login", second.String(), 403, "the issuer says: invalid_grant")
	mixed := v.browser()
	third, _ := url.Parse(mixed.steps())
	q = third.Query()
	q.Set("iss", "https://evil.example.org")
	third.RawQuery = q.Encode()
	mixed.want("the answer of another issuer", third.String(), 403, "this is the answer of another issuer")
}

// A session that somebody has put into the browser before is not the one after the login.
func TestSessionFixation(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	b.setCookie(sessionCookie, "FIXEDFIXEDFIXEDFIXEDFIXED1")
	b.logIn()
	if got := b.cookies()[sessionCookie]; got == "FIXEDFIXEDFIXEDFIXEDFIXED1" || got == "" {
		t.Errorf("the session is %q", got)
	}
	first := b.cookies()[sessionCookie]
	b.logIn()
	if b.cookies()[sessionCookie] == first {
		t.Error("the session of before goes on")
	}
	b.setCookie(sessionCookie, first)
	b.want("the session of before", "/sites/berlin/nodes", 401, "Log in")
}

// After a login the browser goes to a page here, whatever the link says.
func TestOpenRedirects(t *testing.T) {
	v := visiting(t)
	for _, to := range []string{"https://evil.example.org/", "//evil.example.org", `/\evil.example.org`, "/sites/../../evil", "/sites//evil.example.org", "javascript:alert(1)", "/sites/x\r\nSet-Cookie: a=b", "/logout", "/api/v1/sites", "/login/start", "\x00", "/sites/%2f%2fevil", "https:/sites/x", "/sites/" + strings.Repeat("x", 3000)} {
		b := v.browser()
		b.do("GET", "/login/start?"+url.Values{"to": {to}}.Encode(), "")
		if len(b.went) < 3 || b.went[2] != v.url+"/" {
			t.Errorf("%q: went %q", to, b.went)
		}
	}
}

// The page says that the issuer does not answer; certificates, sessions and the API go on.
func TestPageWithoutIssuer(t *testing.T) {
	v := visiting(t)
	v.provider.Change(func(s *oidc.State) { s.Away = true })
	b := v.browser()
	b.want("at the start", "/", 401, "the issuer cannot be used now: "+v.provider.URL)
	b.want("at the start, by the link", "/login/start", 503, "the issuer cannot be used now")
	cert := v.as("ana@example.org")
	get := func(what string, want int) {
		t.Helper()
		for _, at := range []string{"/sites/berlin/nodes", "/api/v1/sites/berlin/report"} {
			resp, err := cert.Get(v.url + at)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %s answers %d", what, at, resp.StatusCode)
			}
		}
	}
	get("a certificate while the issuer is away", 200)

	later := visiting(t)
	b = later.browser()
	b.logIn()
	other := later.browser()
	back := other.steps()
	later.provider.Change(func(s *oidc.State) { s.Away = true })
	b.want("a session goes on", "/sites/berlin/nodes", 200, "web-2")
	other.want("in the middle of a login", back, 503, "the issuer cannot be used now")
}

// Tokens of `slipway login` are for the API; those of another client of the issuer are for nothing.
func TestTokensOfTheCommandLine(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	v.provider.Change(func(s *oidc.State) { s.Clients["other"] = oidc.Client{} })
	for client, want := range map[string]int{"slipway-cli": 200, "slipway": 401, "other": 401} {
		status, text, _ := b.do("GET", "/api/v1/sites/berlin/report", "", "Authorization", "Bearer "+v.provider.IDToken(client, ""), "Sec-Fetch-Site", "")
		if status != want {
			t.Errorf("%s: %d %.300s", client, status, text)
		}
	}
	status, text, _ := b.do("POST", "/api/v1/sites/berlin/approve", `{"digest":"`+digestOfSet+`"}`, "Authorization", "Bearer "+v.provider.IDToken("slipway-cli", ""), "Sec-Fetch-Site", "", "Content-Type", "application/json")
	if status != 200 {
		t.Errorf("approve: %d %s", status, text)
	}
	if status, text, _ := b.do("GET", "/.well-known/oauth-protected-resource", ""); status != 200 || !strings.Contains(text, `"authorization_servers":["`+v.provider.URL+`"]`) || !strings.Contains(text, `"slipway_client_id":"slipway-cli"`) || strings.Contains(text, secretOfPage) {
		t.Errorf("how to log in: %d %s", status, text)
	}
}

// While the access file is wrong, who shows a good token is told that, and not that the token is wrong.
func TestTokensWhileTheAccessFileIsWrong(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	ask := func(what string, status int, says string) {
		t.Helper()
		if got, text, _ := b.do("GET", "/api/v1/sites/berlin/report", "", "Authorization", "Bearer "+v.provider.IDToken("slipway-cli", ""), "Sec-Fetch-Site", ""); got != status || !strings.Contains(text, says) {
			t.Errorf("%s: %d %.300s", what, got, text)
		}
	}
	ask("before", 200, "web-2")
	v.allow(v.lines + "nonsense\n")
	ask("while it is wrong", 503, "the access file on the daemon's host is wrong")
	v.allow(v.lines)
	ask("once it is right", 200, "web-2")
}

// A real browser logs in: its cookies, its Sec-Fetch headers and the policy of the page let it go to the issuer and back.
// With SLIPWAY_PICTURES=FOLDER the pictures are kept there.
func TestProveLoginInBrowser(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("SLIPWAY_PROVE=1 logs in with Chromium")
	}
	program := browser.Program(t)
	dir := os.Getenv("SLIPWAY_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	v := visiting(t)
	home := t.TempDir()
	look := func(address string, more ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := browser.Command(ctx, program, home, append([]string{"--ignore-certificate-errors", "--timeout=5000", "--enable-logging=stderr", "--v=0"}, append(more, v.url+address)...)...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "status of 401") {
				t.Errorf("%s: %s", address, line)
			}
		}
		return html.UnescapeString(string(out))
	}
	if text := look("/sites/berlin/nodes", "--dump-dom"); !strings.Contains(text, "/login/start?to=%2Fsites%2Fberlin%2Fnodes") || strings.Contains(text, "web-2") {
		t.Errorf("nobody sees %s", text)
	}
	for _, width := range []string{"360", "1280"} {
		look("/", "--window-size="+width+",800", "--screenshot="+filepath.Join(dir, "login-"+width+".png"))
	}
	if text := look("/login/start?to=%2Fsites%2Fberlin%2Fnodes", "--dump-dom"); !strings.Contains(text, "web-2") || !strings.Contains(text, "ana@example.org (OIDC ") || !strings.Contains(text, "Log out") {
		t.Errorf("who has logged in sees %s", text)
	}
	v.provider.Change(func(s *oidc.State) { s.Token = func(x *oidc.Token) { x.Claims["email_verified"] = false } })
	if text := look("/login/start", "--dump-dom"); !strings.Contains(text, "has not verified the e-mail address") {
		t.Errorf("who is refused sees %s", text)
	}
	look("/login/start", "--window-size=1280,800", "--screenshot="+filepath.Join(dir, "login-refused.png"))
	v.provider.Change(func(s *oidc.State) { s.Token = nil })
	look("/login/start?to=%2Fsites%2Fberlin", "--window-size=1280,800", "--screenshot="+filepath.Join(dir, "logged-in.png"))
}

// An open page whose session has ended is no login, however often it asks again.
func TestOpenPagesUseUpNoLogins(t *testing.T) {
	v := visiting(t)
	b := v.browser()
	b.setCookie(sessionCookie, "ended")
	status, text, header := b.do("GET", "/sites/berlin/live?page=/sites/berlin", "", "Accept", "text/event-stream")
	if status != 401 || strings.Contains(text, "<html") || header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v %.200s", status, header, text)
	}
	b.want("a page", "/sites/berlin", 401, "Log in")
}
