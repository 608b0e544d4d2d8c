package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/sops"
	"github.com/slipway-gitops/slipway/tests/github"
)

// mark is in every canary that a person could have chosen.
const mark = "cnry7f3aQ9"

// canary is a secret with where it is kept.
type canary struct {
	name, kind, store string
	secret            string
}

// aviary is a hall whose daemon has many secrets, of all kinds and in all stores.
type aviary struct {
	*hall
	id    sealed.Identity
	to    sealed.Recipient
	birds []canary
	heard *recorder
	told  *recorder
}

// recorder is a server that keeps what it is sent.
type recorder struct {
	mu     sync.Mutex
	heads  int // Authorization headers and bodies with a secret
	bodies bytes.Buffer
}

// stores are where a credential's value may be.
var stores = []string{"file", "sealed", "sops.yaml", "sops.json"}

// kindsOf are secrets of each kind, for one store.
func (a *aviary) kindsOf(store string) (all []canary) {
	id := func(kind string) string {
		return fmt.Sprintf("%s-%s-%s", mark, strings.ReplaceAll(store, ".", "-"), kind)
	}
	for kind, text := range map[string]string{
		"password": id("password"), "spaces": id("a b+c/d%") + "\"<é>", "hash": "$6$saltsaltsalt$" + strings.ReplaceAll(id("hash"), "-", "."),
		"token": "ghp_" + mark + strings.Repeat(store[:1], 30), "url": "https://hooks.example.org/services/" + id("url"),
		"basic": "https://user:" + id("basic") + "@hooks.example.org/", "hook": id("hook") + strings.Repeat("0", 40),
		"key": keyWithComment(a.t, id("key")), "age": "AGE-SECRET-KEY-1" + strings.ToUpper(mark) + strings.Repeat("Q", 40),
	} {
		all = append(all, canary{name: strings.ReplaceAll(store, ".", "-") + "-" + kind, kind: kind, store: store, secret: text})
	}
	return all
}

// keyWithComment is a private key of SSH.
func keyWithComment(t *testing.T, comment string) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	block, err := ssh.MarshalPrivateKey(key, comment)
	check(t, err)
	return string(pem.EncodeToMemory(block))
}

// newAviary founds the hall. Each canary is the password of a BMC that lets nobody in,
// and that says back all that it is sent.
func newAviary(t *testing.T) *aviary {
	t.Helper()
	a := &aviary{heard: &recorder{}, told: &recorder{}}
	receiver := httptest.NewServer(a.told)
	t.Cleanup(receiver.Close)
	a.hall = newHall(t, atOnce, false, "--listen", "127.0.0.1:0", "--webhook-listen", "127.0.0.1:0", "--notify-webhook", receiver.URL,
		"--notify-credential", "notify", "--notify-form", "slack")
	a.write("cred/notify", "hosts: 127.0.0.1\nuse: notify\nports: 1024-65535\n\n"+receiver.URL+"/services/T0/"+mark+"-notify\n")
	var err error
	a.id, err = sealed.Create(a.path("secrets.key"), sealed.Classic)
	check(t, err)
	a.to, err = sealed.ParseRecipient(a.id.Recipients()[0], sealed.Means{})
	check(t, err)
	for _, store := range stores {
		a.birds = append(a.birds, a.kindsOf(store)...)
	}
	a.derive()
	a.birds = append(a.birds, canary{"os", "key", "sealed", a.key}, canary{"bmc", "password", "sops.yaml", password},
		canary{inFile, "password", "file", mark + "-in-a-file"})
	a.flags = append(a.flags, "--agents", helpers(t))
	check(t, os.Remove(a.path("cred/os")))
	check(t, os.Remove(a.path("cred/bmc")))
	return a
}

// inFile is the credential whose value is in a file of a system.
const inFile = "in-file"

// helpers are programs for machines that the lab's systems answer without.
func helpers(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		check(t, os.WriteFile(filepath.Join(folder, "slipway-helper-linux-"+arch), []byte(arch), 0o600))
	}
	return folder
}

// derive has passwords made of the site's key.
func (a *aviary) derive() {
	a.t.Helper()
	key, err := sitekey.Create(a.path("site.key"))
	check(a.t, err)
	form, err := derived.FormOf("")
	check(a.t, err)
	for i, store := range stores {
		v, err := derived.Password(key, derived.Of{Site: "town", Purpose: "bmc account", Machine: identity(i).UUID, Epoch: 1}, form)
		check(a.t, err)
		text, err := v.Password()
		check(a.t, err)
		a.birds = append(a.birds, canary{strings.ReplaceAll(store, ".", "-") + "-derived", "derived", store, text})
	}
}

// text is a canary as a file of credentials.
func (a *aviary) text(c canary) string {
	switch c.name {
	case "os":
		return "hosts: 127.95.2.0/24\nuse: ssh\nports: 1024-65535\nusername: admin\n\n" + c.secret
	case inFile:
		return "hosts: 127.95.2.0/24\nuse: file\nports: 1024-65535\n\n" + c.secret
	case "bmc":
		return "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n" + c.secret
	}
	return "hosts: 127.95.3.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n" + c.secret
}

// files are the design and the encrypted secrets, and puts the others beside them.
func (a *aviary) files() github.Files {
	a.t.Helper()
	port, fingerprint := a.echo()
	design := strings.Replace(a.design(), "credentials: {bmc: {}, os: {}, outdated: {}}\n", "", 1) +
		fmt.Sprintf("profiles: hostile: {\n\trole: \"worker\"\n\track: \"r1\"\n\tendpoints: manager: trust: fingerprint: %q\n}\n", fingerprint)
	files, together := github.Files{}, map[string]*sops.Content{}
	for i, c := range a.birds {
		from := ""
		switch c.store {
		case "file":
			a.write("cred/"+c.name, a.text(c))
		case "sealed":
			file, err := sealed.Seal(sealed.Header{Site: "town", Name: c.name, Set: time.Now(), Changed: time.Now()}, []byte(a.text(c)), []sealed.Recipient{a.to})
			check(a.t, err)
			files["secrets/"+c.name+".age"], from = string(file), `from: "sealed"`
		default:
			name := "all." + c.store
			if together[name] == nil {
				content, err := sops.New(name, []sealed.Recipient{a.to})
				check(a.t, err)
				together[name] = content
			}
			check(a.t, together[name].PutCredential(c.name, "town", []byte(a.text(c))))
			from = fmt.Sprintf(`from: "sops", file: %q, key: %q`, name, c.name)
		}
		design += fmt.Sprintf("credentials: %q: {%s}\n", c.name, from)
		if !slices.Contains([]string{"os", "bmc", inFile}, c.name) {
			design += fmt.Sprintf("nodes: \"echo-%d\": {\n\tprofiles: [\"hostile\"]\n\tendpoints: manager: {url: \"redfish+https://127.95.3.%d:%s\", credential: %q}\n}\n", i+1, i+1, port, c.name)
		}
	}
	design += fmt.Sprintf("nodes: \"new-1\": system: files: \"/etc/app/token\": credential: %q\n", inFile)
	for name, content := range together {
		f, err := content.File(time.Now())
		check(a.t, err)
		text, err := f.Bytes()
		check(a.t, err)
		files["secrets/"+name] = string(text)
	}
	files["site.cue"] = design
	files["secrets/recipients"] = "# daemon\n" + a.to.Text + "\n"
	return files
}

// echo is the BMC: at all addresses of this host, and whoever logs in is told no in the
// words of the request.
func (a *aviary) echo() (port, fingerprint string) {
	a.t.Helper()
	server := httptest.NewUnstartedServer(a.heard)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	check(a.t, err)
	check(a.t, server.Listener.Close())
	server.Listener = l
	server.StartTLS()
	a.t.Cleanup(server.Close)
	_, port, err = net.SplitHostPort(l.Addr().String())
	check(a.t, err)
	sum := sha256.Sum256(server.Certificate().Raw)
	return port, "sha256:" + hex.EncodeToString(sum[:])
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies.Write(body)
	name, secret, basic := q.BasicAuth()
	if strings.Contains(string(body), "assword") || basic {
		r.heads++
		w.Header().Set("WWW-Authenticate", "Basic realm="+url.QueryEscape(secret))
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": {"message": %q, "code": "Base.1.0.%s", "@Message.ExtendedInfo": [{"Message": %q, "MessageId": "Base.1.0.Denied", "MessageArgs": [%[1]q]}]}}`,
			string(body)+secret+" "+q.Header.Get("Authorization"), name, "wrong: "+secret)
		return
	}
	if q.Method == http.MethodGet && strings.Trim(q.URL.Path, "/") == "redfish/v1" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"@odata.id": "/redfish/v1/", "RedfishVersion": "1.6.0", "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Managers": {"@odata.id": "/redfish/v1/Managers"},
"SessionService": {"@odata.id": "/redfish/v1/SessionService"}, "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}}`)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (r *recorder) sent() (int, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heads, r.bodies.String()
}

// A daemon with canaries of all kinds works, is asked all that can be asked, and is
// made to crash. They are in nothing that it said or wrote.
func TestCanariesStayInTheirStores(t *testing.T) {
	t.Parallel()
	a := newAviary(t)
	if len(a.birds) < 40 {
		t.Fatalf("%d canaries", len(a.birds))
	}
	a.repo.Push("ada", "main", "secrets", a.files())
	a.startProgram(program, "GOTRACEBACK=crash")
	a.status("the lab's machines are in-sync, and each of the others was tried", func(s site.Status) bool {
		_, _ = a.approve()
		for _, n := range s.Nodes {
			settled := n.State == site.InSync || strings.HasPrefix(n.Name, "echo-") && n.Reason != "" && n.State != site.Progressing
			if !settled {
				return false
			}
		}
		return len(s.Nodes) == len(a.birds)-3+len(names)
	})
	p := a.proposes("again", ordered("old-1"))
	texts := map[string]string{"the comment": a.says(p, "old-1"), "the control socket": a.asked()}
	a.eventually("people are told", func() bool { _, text := a.told.sent(); return text != "" })
	texts["the metrics"] = a.page("/metrics") + a.page("/readyz")
	texts["the log"], texts["/proc"] = a.log(), a.proc()
	a.crash()
	texts["the log with its crash"] = a.log()
	_, texts["the notifications"] = a.told.sent()
	for i, c := range a.hub.Calls() {
		if c.Write() && c.Route != "" {
			texts[fmt.Sprintf("request %d to GitHub", i)] = c.Path + c.Query + c.Body
		}
	}
	a.git("clone", "-q", "--mirror", a.repo.Dir(), "hub.git")
	texts["the objects of the repository"] = a.objects("hub.git")
	a.readAll(texts, "state")
	a.holds(texts)
	if !strings.Contains(texts["the control socket"], "that of credential "+inFile) {
		t.Error("no file of a system has the value of a credential")
	}
	heads, _ := a.heard.sent()
	if heads < 10 {
		t.Errorf("%d passwords were sent to a BMC that says them back", heads)
	}
	a.nowhere(texts)
}

// asked is what the control socket answers to all questions.
func (a *aviary) asked() string {
	a.t.Helper()
	all := a.hall.told()
	events, err := a.ask.Events(context.Background(), "", 0)
	check(a.t, err)
	all += fmt.Sprintf("%+v", events)
	report, err := a.ask.Report(context.Background(), "")
	check(a.t, err)
	for _, n := range report.Status.Nodes {
		history, err := a.ask.History(a.t.Context(), "", n.Name)
		check(a.t, err)
		near, err := a.ask.Closeup(a.t.Context(), "", n.Name)
		check(a.t, err)
		all += fmt.Sprintf("%+v %+v", history, near)
	}
	return all
}

// page is one that the daemon serves.
func (a *aviary) page(path string) string {
	a.t.Helper()
	_, rest, ok := strings.Cut(a.log(), `msg="slipway listens" `)
	_, rest, _ = strings.Cut(rest, "address=")
	address, _, _ := strings.Cut(rest, "\n")
	if !ok {
		a.t.Fatal("the daemon does not listen")
	}
	r, err := http.Get("http://" + strings.Fields(address)[0] + path)
	check(a.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	check(a.t, err)
	return string(text)
}

// proc is what others can read of the daemon and of what it has started.
func (w *town) proc() (all string) {
	w.t.Helper()
	pids := []string{fmt.Sprint(w.daemon.cmd.Process.Pid)}
	children, err := os.ReadFile("/proc/" + pids[0] + "/task/" + pids[0] + "/children")
	check(w.t, err)
	for _, pid := range append(pids, strings.Fields(string(children))...) {
		for _, name := range []string{"cmdline", "environ", "comm", "status", "limits"} {
			text, err := os.ReadFile(filepath.Join("/proc", pid, name))
			if err == nil { // a child may be gone
				all += string(text)
			}
		}
	}
	return all
}

// crash ends the daemon with its goroutines on stderr, and without a core.
func (w *town) crash() {
	w.t.Helper()
	check(w.t, w.daemon.cmd.Process.Signal(syscall.SIGQUIT))
	select {
	case <-w.daemon.ended:
	case <-time.After(stopLimit):
		w.t.Fatal("the daemon did not crash")
	}
	state := w.daemon.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !state.Signaled() || state.CoreDump() || !strings.Contains(w.log(), "goroutine 1 ") {
		w.t.Errorf("it ended with %v (core: %t); want a crash with its goroutines, and no core", w.daemon.err, state.CoreDump())
	}
}

// holds proves that there was something to search in each place.
func (a *aviary) holds(texts map[string]string) {
	a.t.Helper()
	for where, word := range map[string]string{
		"the comment": "old-1", "the control socket": "echo-1", "the metrics": "slipway_", "the log": "level=DEBUG", "/proc": "--notify-webhook",
		"the log with its crash": "goroutine 1 ", "the notifications": "town", "the objects of the repository": "BEGIN AGE ENCRYPTED FILE",
	} {
		if !strings.Contains(texts[where], word) {
			a.t.Errorf("%s does not hold %q: there was nothing to search", where, word)
		}
	}
	for _, text := range []string{"x" + mark + "y", hex.EncodeToString([]byte(mark)), base64.StdEncoding.EncodeToString([]byte("admin:a" + mark + "b")),
		base64.URLEncoding.EncodeToString([]byte(a.birds[0].secret)), url.QueryEscape(a.birds[1].secret), zipped(a.birds[2].secret)} {
		if len(a.found(text+unzipped(text))) == 0 {
			a.t.Errorf("the search does not find %q", text)
		}
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // to memory
	_ = w.Close()
	return "before " + b.String() + " behind"
}

// unzipped is what is compressed anywhere in a text, as in the records.
func unzipped(text string) string {
	var b strings.Builder
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "\x1f\x8b\x08")
		if !ok {
			return b.String()
		}
		if r, err := gzip.NewReader(strings.NewReader("\x1f\x8b\x08" + after)); err == nil {
			_, _ = io.Copy(&b, io.LimitReader(r, 8<<20)) // as far as it goes
		}
		rest = after
	}
}

// nowhere searches what the daemon said and wrote.
func (a *aviary) nowhere(texts map[string]string) {
	a.t.Helper()
	for where, text := range texts {
		text = strings.TrimRight(text, "\x00")
		for _, what := range a.found(text + unzipped(text)) {
			a.t.Errorf("%s is in %s", what, where)
		}
	}
}

// found are the forms of canaries that are in a text.
func (a *aviary) found(text string) (all []string) {
	for _, f := range a.forms() {
		if strings.Contains(text, f.text) {
			all = append(all, f.what)
		}
	}
	return all
}

// forms are those of the mark, and of the secrets that nobody chose.
func (a *aviary) forms() (all []form) {
	add := func(what, secret string) { all = append(all, formsOf(what, secret)...) }
	add("the mark", mark)
	add("the mark in capitals", strings.ToUpper(mark))
	for _, c := range a.birds {
		if !strings.Contains(c.secret, mark) || c.kind == "key" {
			a.each(c.name, c.secret, add)
		}
	}
	for what, secret := range a.secrets {
		a.each(what, secret, add)
	}
	for what, file := range map[string]string{"the identity": "secrets.key", "the site's key": "site.key"} {
		text, err := os.ReadFile(a.path(file))
		check(a.t, err)
		lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") || strings.Contains(line, " ") })
		a.each(what, strings.Join(lines, "\n"), add)
	}
	return all
}

// formsOf are a secret as it is, and as it looks on the wire and in files.
func formsOf(what, secret string) (all []form) {
	all = append(all, form{what, secret}, form{what + " in hex", hex.EncodeToString([]byte(secret))}, form{what + " in hex", strings.ToUpper(hex.EncodeToString([]byte(secret)))})
	for shift := range 3 { // as it stands in the base64 of a text with more before and behind it
		enc := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		enc = strings.TrimRight(enc, "=")
		enc = enc[(shift*8+5)/6 : len(enc)-1]
		all = append(all, form{what + " in base64", enc}, form{what + " in base64 for URLs", strings.NewReplacer("+", "-", "/", "_").Replace(enc)})
	}
	if escaped := url.QueryEscape(secret); escaped != secret {
		all = append(all, form{what + " escaped", escaped})
	}
	return all
}

// each adds the lines of a secret that tell it from others.
func (a *aviary) each(what, secret string, add func(what, line string)) {
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) > 8 && !strings.HasPrefix(line, "-----") && !strings.HasPrefix(line, "b3BlbnNzaC1rZXktdjE") {
			add(what, line)
		}
	}
}
