package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/notify"
	"github.com/slipway-gitops/slipway/tests/lab"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md as it is")

// troubleshooting is the page that tells people by what they read what has
// happened. All of it is what a daemon has said.
const troubleshooting = "../../docs/troubleshooting.md"

// trouble is something that happens to one machine of a site in which all was well.
type trouble struct {
	node, title string
	what, do    string // what has happened and what to do, in sentences
	// One of these has it happen: a fault of the BMC, an order, a line of the
	// design, or another design.
	fault  lab.FaultKind
	breaks string // the part that is critical
	order  site.Order
	line   string
	design func(w *town, node, design string) string
	// says is a part of what is said of it; empty where that its system is silent
	// is all.
	says string
}

// troubles are those of machines, in the order of the page. The names of the nodes
// are in the same order.
var troubles = []trouble{
	{node: "bmc-gone", title: "The BMC is gone", what: "The BMC closes connections, is unplugged, or starts again.",
		do: "Look at its power and cable. The node goes on by itself once the BMC answers.", fault: lab.FaultRefuse, says: "does not answer"},
	{node: "bmc-404", title: "A resource of the BMC is gone", what: "The BMC answers 404 to what was there.",
		do: "Restart the BMC; look at the release notes of its firmware.", fault: lab.FaultMissing, says: "404 Not Found"},
	{node: "bmc-500", title: "The BMC has an error of its own", what: "The BMC answers 500 to everything.",
		do: "Restart the BMC.", fault: lab.FaultServerError, says: "500"},
	{node: "bmc-busy", title: "The BMC is busy", what: "The BMC answers 503 and asks to be left alone for a while.",
		do: "Nothing: it is asked again when it said.", fault: lab.FaultBusy, says: "503"},
	{node: "bmc-ca", title: "A certificate of another authority", what: "The BMC has a certificate that the design's authority has not signed.",
		do: "Find out who made it. If it is right, change `endpoints.manager.trust` in the design.", fault: lab.FaultOtherCert, says: "certificate"},
	{node: "bmc-cut", title: "Answers break off", what: "The BMC breaks off in the middle of its answers.",
		do: "Look at the network between the daemon and the BMC; restart the BMC.", fault: lab.FaultTruncated, says: "unexpected EOF"},
	{node: "bmc-expired", title: "A certificate has expired", what: "The BMC's certificate has expired.",
		do: "Give the BMC a new one.", fault: lab.FaultExpired, says: "expired"},
	{node: "bmc-forbidden", title: "The account may not", what: "The BMC answers 403 to everything.",
		do: "Give the account its role on the BMC.", fault: lab.FaultForbidden, says: "403"},
	{node: "bmc-full", title: "The BMC has no room for a session", what: "As many sessions are open on the BMC as it lets be open.",
		do: "End some of them in the BMC, or wait until it does; look who leaves them open.", fault: lab.FaultSessionLimit, says: "session"},
	{node: "bmc-gateway", title: "A gateway answers in its place", what: "Something before the BMC answers 504.",
		do: "Look at the proxy or the manager before the BMC.", fault: lab.FaultGateway, says: "504"},
	{node: "bmc-html", title: "A page for people in its place", what: "The BMC shows a login page instead of Redfish.",
		do: "Switch Redfish on in the BMC, or look what else has its address.", fault: lab.FaultHTML, says: "Redfish"},
	{node: "bmc-login", title: "The password is not accepted", what: "The password in the credential's file is not the BMC's, or the account is locked.",
		do: "Write the right one to the file. Nothing is sent until then.", line: `endpoints: manager: credential: "outdated"`, says: "wrong BMC password"},
	{node: "bmc-self", title: "A certificate that nobody signed", what: "The BMC has a certificate that it signed itself, as after a reset to its defaults.",
		do: "Give it a certificate, or write its fingerprint as `endpoints.manager.trust.fingerprint`.", fault: lab.FaultSelfSigned, says: "certificate"},
	{node: "bmc-swapped", title: "Another machine answers", what: "At the BMC's address is a machine with another UUID: addresses were exchanged, or a board.",
		do: "Compare the identity with the plate. Correct the address or `identity` in the design. Nothing is written until then.", fault: lab.FaultWrongUUID, says: "another machine"},
	{node: "cred-file", title: "A credential has no file", what: "The design names a credential, and the host has no file for it.",
		do: "Put the file there.", line: `endpoints: manager: credential: "nowhere"`, says: "nowhere"},
	{node: "cred-host", title: "A credential is for other hosts", what: "The credential's file says `hosts:`, and the address is not among them.",
		do: "Look who changed the address. If it is right, add it in the file.", line: `endpoints: manager: credential: "elsewhere"`, says: "not for this host"},
	{node: "cred-use", title: "A credential is for something else", what: "The credential's file says `use: ssh`, and the design sends it to a BMC.",
		do: "Name the right credential in the design.", line: `endpoints: manager: credential: "mistaken"`, says: "use:"},
	{node: "fan-broken", title: "A part is broken", what: "The BMC says that a fan is critical.",
		do: "Replace it. The machine is kept as designed meanwhile.", breaks: "Fan1", says: "Critical"},
	{node: "gone-line", title: "A node has left the design", what: "A commit removes a node that was not announced to leave.",
		do: "Put it back with `decommission: true`, and remove it later; or approve that it leaves.", design: func(_ *town, node, design string) string {
			head, rest, _ := strings.Cut(design, fmt.Sprintf("nodes: %q: {\n", node))
			_, rest, _ = strings.Cut(rest, "\n}\n")
			return head + rest
		}, says: "removes the node"},
	{node: "lent-out", title: "A machine is away", what: "The design says `away`: the machine is at the vendor, or unplugged on purpose.",
		do: "Take the line out when it is back.", line: `away: "at the vendor"`, says: "at the vendor"},
	{node: "new-approval", title: "An installation waits for approval", what: "The design has the machine installed, which erases its disks.",
		do: "Read the disks' serials, and approve by the digest, or take the line out of the design.", says: "waits for approval"},
	{node: "os-hostkey", title: "The system has another host key", what: "The system shows a host key that is not in the design: it was installed by hand, or somebody intercepts the connection.",
		do: "Look at the machine. If it is right, change the host key in the design.", design: func(w *town, node, design string) string {
			return strings.Replace(design, w.fleet.HostKey(node), w.fleet.HostKey("somebody-else"), 1)
		}},
	{node: "os-silent", title: "The system does not answer", what: "The machine is on, and SSH on its system does not answer.",
		do: "Look at its console: `slipway logs NODE --console`. It stays in-sync, since its BMC says that all is as designed.", design: func(w *town, node, design string) string {
			return strings.Replace(design, w.fleet.OSURL(node), "ssh://127.95.3.1:2022", 1)
		}},
	{node: "quarantined", title: "A person has quarantined the machine", what: "Somebody said that nothing may be done to the machine.",
		do: "Ask them; `slipway release NODE` ends it.", order: site.Order{Verb: site.VerbQuarantine, Reason: "smells burnt"}, says: "smells burnt"},
	{node: "stopped", title: "A person has paused the node", what: "Somebody has paused the node.",
		do: "Ask them; `slipway resume NODE` ends it.", order: site.Order{Verb: site.VerbPause, Reason: "a new fan"}, says: "a new fan"},
	{node: "stopped-line", title: "The design has paused the node", what: "The design says `paused`, with a reason.",
		do: "Take the line out by a commit.", line: `paused: {by: "ada", reason: "a new rack"}`, says: "a new rack"},
}

// siteTrouble is something that happens to a site as a whole.
type siteTrouble struct {
	about           string // of the problem
	title, what, do string
	begin, end      func(w *town)
	says            string
	told            string // when people are told who do not look, unless it was seen
}

var siteTroubles = []siteTrouble{
	{about: "design", title: "The newest commit is broken", what: "A commit on the branch has errors.", do: "Correct it by another commit: `slipway check` names the lines. The design before stays in force.",
		begin: func(w *town) { w.commit(w.broken(), "a typing mistake") }, end: func(w *town) { w.commit(w.design(), "without it") }, says: "power"},
	{about: "source", title: "The branch was rewritten", what: "Somebody forced the branch back, or onto another history.", do: "Put the branch back, or start the daemon once with `--allow-rewrite`. The last design stays in force.",
		begin: func(w *town) {
			w.write("was", w.git("-C", "site.git", "rev-parse", "main"))
			w.git("-C", "site.git", "update-ref", "refs/heads/main", w.git("-C", "site.git", "rev-parse", "main~1"))
		}, end: func(w *town) {
			was, err := os.ReadFile(w.path("was"))
			check(w.t, err)
			w.git("-C", "site.git", "update-ref", "refs/heads/main", strings.TrimSpace(string(was)))
		}, says: "rewritten", told: "when it lasts for 15 minutes"},
	{about: "source", title: "The repository is away", what: "The repository cannot be read.", do: "Look at its server, the network and the credential. The last design stays in force, and its machines are kept.",
		begin: func(w *town) { w.rename("site.git", "away.git") }, end: func(w *town) { w.rename("away.git", "site.git") }, says: "repository", told: "when it lasts for 15 minutes"},
	{about: "status branch", title: "The status cannot be written", what: "The repository takes no commits on the status branch.", do: "Look at the branch's protection and the credential's rights.",
		begin: func(w *town) {
			w.write("site.git/hooks/pre-receive", "#!/bin/sh\necho 'this branch is protected' >&2\nexit 1\n")
			check(w.t, os.Chmod(w.path("site.git/hooks/pre-receive"), 0o755))
			w.drift()
		}, end: func(w *town) { check(w.t, os.Remove(w.path("site.git/hooks/pre-receive"))) }, says: "hook declined", told: "when it lasts for 15 minutes"},
}

// TestTroubleshooting has each trouble happen to a site of real processes, and
// holds the page to what they say in the status, the log, the metrics and the
// notifications.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	var names []string
	for _, x := range troubles {
		names = append(names, x.node)
	}
	w := foundTown(t, append(names, "old-1"), rules{cue: atOnce.cue + "credentials: {nowhere: {}, elsewhere: {}, mistaken: {}}\nsite: rollout: maxFailures: \"100%\"\n"})
	w.write("cred/os", "hosts: 127.95.2.0/23\nuse: ssh\nports: 1024-65535\nusername: admin\n\n"+w.key)
	w.write("cred/outdated", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\nlast-year\n")
	w.write("cred/mistaken", "hosts: 127.95.1.0/24\nuse: ssh\nports: 1024-65535\nusername: admin\n\n"+w.key)
	w.write("cred/elsewhere", "hosts: 192.0.2.0/24\nuse: redfish\nusername: admin\n\n"+password+"\n")
	w.write("page", "#!/bin/sh\n/bin/cat >> "+w.path("told")+"\n")
	check(t, os.Chmod(w.path("page"), 0o755))
	metrics := ownAddress()
	w.flags = []string{"--listen", metrics, "--notify-command", w.path("page")}
	w.start()
	w.status("all is well", func(s site.Status) bool {
		for _, n := range s.Nodes {
			if n.State != site.InSync && !isNew(n.Name) || n.Service == site.ServiceUnknown && !isNew(n.Name) {
				return false
			}
		}
		return len(s.Nodes) > 0
	})
	for _, x := range troubles {
		x.happens(w)
	}
	w.commit(troubledDesign(w), "troubles")
	for _, x := range troubles {
		w.status(x.title, func(s site.Status) bool { return x.settled(stateOf(s, x.node)) })
	}
	w.eventually("people are told", func() bool {
		told := w.toldOf()
		for _, x := range troubles {
			if n := w.nodeNow(x.node); n.Person && told[x.node] == "" {
				return false
			}
		}
		return true
	})
	was, err := os.ReadFile(troubleshooting)
	check(t, err)
	p := &troublePage{w: w, was: string(was)}
	for _, x := range troubles {
		p.section(func() string { return p.node(x, w.toldOf()[x.node]) })
	}
	w.measured(metrics)
	for _, x := range siteTroubles {
		p.site(x, metrics)
	}
	w.stop()
	p.hold()
}

func (x trouble) happens(w *town) {
	w.t.Helper()
	if x.fault != lab.FaultNone {
		m := w.fleet.Machine(x.node)
		m.SetFault(lab.Fault{Kind: lab.FaultRefuse}) // connections that are open know nothing of it
		w.status(x.node+" has lost its connections", func(s site.Status) bool { return stateOf(s, x.node).State == site.Retrying })
		m.ForgetSessions()
		m.SetFault(lab.Fault{Kind: x.fault})
	}
	if x.breaks != "" {
		w.fleet.Machine(x.node).SetHealth(x.breaks, "Critical")
	}
	if x.order.Verb != "" {
		x.order.Node = x.node
		_, err := w.ask.Do(w.t.Context(), "", x.order)
		check(w.t, err)
	}
}

// troubledDesign is the town's design with what the troubles write into it.
func troubledDesign(w *town) string {
	design := w.design()
	for _, x := range troubles {
		if x.line != "" {
			head := fmt.Sprintf("nodes: %q: {\n", x.node)
			design = strings.Replace(design, head, head+"\t"+x.line+"\n", 1)
		}
		if x.design != nil {
			design = x.design(w, x.node, design)
		}
	}
	return design
}

// settled says whether the status says what has happened.
func (x trouble) settled(n site.NodeStatus) bool {
	if x.says == "" {
		return n.Service == site.ServiceSilent
	}
	said := n.Reason + n.Cause + n.Health
	for _, f := range n.Findings {
		said += f.Message
	}
	return strings.Contains(said, x.says)
}

func (w *town) nodeNow(name string) site.NodeStatus {
	w.t.Helper()
	r, err := w.ask.Report(context.Background(), "")
	check(w.t, err)
	return stateOf(r.Status, name)
}

// toldOf is what people were told, by the nodes that it is about, or by what it
// is about when it is the site.
func (w *town) toldOf() map[string]string {
	w.t.Helper()
	told := map[string]string{}
	f, err := os.Open(w.path("told"))
	if os.IsNotExist(err) {
		return told
	}
	check(w.t, err)
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var m notify.Message
		if d.Decode(&m) != nil {
			return told // the last may be half written
		}
		for _, e := range m.Events {
			if e.Event == notify.EventResolved {
				continue
			}
			text := fmt.Sprintf("%s: %s; %s", e.Kind, e.What, e.Do)
			for _, name := range e.Nodes {
				told[name] = text
			}
			if len(e.Nodes) == 0 {
				told[string(e.Kind)] = text
			}
		}
	}
}

// measured holds the metrics to the status: they count what it says.
func (w *town) measured(address string) {
	w.t.Helper()
	w.eventually("the metrics count what the status says", func() bool {
		r, err := w.ask.Report(context.Background(), "")
		check(w.t, err)
		page, person := w.page(address), 0
		for _, n := range r.Status.Nodes {
			if n.Person {
				person++
			}
		}
		want := []string{fmt.Sprintf("slipway_nodes_need_person{site=\"town\"} %d\n", person), fmt.Sprintf("slipway_nodes_silent{site=\"town\"} %d\n", len(r.Status.Silent()))}
		for state, n := range r.Status.Counts() {
			want = append(want, fmt.Sprintf("slipway_nodes{site=\"town\",state=%q} %d\n", state, n))
		}
		return !slices.ContainsFunc(want, func(line string) bool { return !strings.Contains(page, line) })
	})
}

func (w *town) page(address string) string {
	w.t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	check(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(w.t, err)
	return string(text)
}

// troublePage is the page as it is written.
type troublePage struct {
	w    *town
	was  string // the page as it is
	text strings.Builder
}

// section writes a section. What is said may be on its way still, so that it is
// asked for until it is what the page has.
func (p *troublePage) section(of func() string) {
	text := of()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !*update && !strings.Contains(p.was, text) && time.Now().Before(end); <-tick.C {
		text = of()
	}
	p.text.WriteString(text)
}

func (p *troublePage) node(x trouble, told string) string {
	p.w.t.Helper()
	n := p.w.nodeNow(x.node)
	counted := []string{fmt.Sprintf("`slipway_nodes{state=%q}`", n.State)}
	if n.Person {
		counted = append(counted, "`slipway_nodes_need_person`")
	}
	if n.Service == site.ServiceSilent {
		counted = append(counted, "`slipway_nodes_silent`")
	}
	said := string(n.State)
	if n.Reason != "" {
		said += ": " + n.Reason
	}
	if n.Service == site.ServiceSilent {
		said += "; its system does not answer"
	}
	if n.Health != "OK" && n.Health != "" {
		said += "; its health is " + n.Health
	}
	if told == "" {
		told = "nothing: nobody is needed, or not yet"
	}
	return p.written(x.title, x.what, x.do, [][2]string{
		{"status", said}, {"why", p.w.why(x.node)}, {"log", p.w.warned("node=" + x.node + " ")}, {"metrics", strings.Join(counted, ", ")}, {"notification", told}})
}

// why is what the command of that name says of the cause and of what ends it.
func (w *town) why(node string) string {
	w.t.Helper()
	var parts []string
	for line := range strings.Lines(w.slipway(0, "why", node, "--state", w.path("state"))) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "cause" || word == "releases" {
			parts = append(parts, word+": "+strings.TrimSpace(rest))
		}
	}
	return strings.Join(parts, "; ")
}

var logged = regexp.MustCompile(`level=WARN .*?msg=("[^"]*"|\S+).* what="((?:[^"\\]|\\.)*)"`)

// warned is the last warning of the log with some words.
func (w *town) warned(words string) string {
	w.t.Helper()
	last := ""
	for line := range strings.Lines(w.log()) {
		if m := logged.FindStringSubmatch(line); m != nil && strings.Contains(line, words) {
			last = strings.ReplaceAll(m[2], `\"`, `"`)
		}
	}
	if last == "" {
		return "no warning"
	}
	return last
}

func (p *troublePage) site(x siteTrouble, metrics string) {
	p.w.t.Helper()
	x.begin(p.w)
	var said string
	p.w.status(x.title, func(s site.Status) bool {
		for _, problem := range s.Problems {
			if strings.HasPrefix(problem.About, x.about) && strings.Contains(problem.What, x.says) {
				said = problem.What
				return true
			}
		}
		return false
	})
	about := x.about
	if strings.Contains(about, " ") {
		about = strconv.Quote(about) // as the log has it
	}
	counted := fmt.Sprintf("slipway_problems{about=%q", x.about)
	p.w.eventually("the metrics count the problem", func() bool { return strings.Contains(p.w.page(metrics), counted) })
	told := x.told
	if told == "" {
		p.w.eventually("people are told of "+x.title, func() bool { told = p.w.toldOf()["problem"]; return strings.Contains(told, x.says) })
	}
	p.section(func() string {
		return p.written(x.title, x.what, x.do, [][2]string{
			{"status", "problem: " + said}, {"log", p.w.warned("about=" + about)}, {"metrics", "`" + counted + "}`"}, {"notification", told}})
	})
	x.end(p.w)
	p.w.status("the end of: "+x.title, func(s site.Status) bool {
		return !slices.ContainsFunc(s.Problems, func(problem site.Problem) bool { return strings.HasPrefix(problem.About, x.about) })
	})
}

func (p *troublePage) written(title, what, do string, rows [][2]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n## %s\n\n%s %s\n\n| where | what it says |\n|---|---|\n", title, what, do)
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&text, "| %s | %s |\n", r[0], strings.ReplaceAll(p.plain(r[1]), "|", "\\|"))
		}
	}
	return text.String()
}

// passing are what is otherwise at each run.
var passing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`127\.95\.[0-9]+\.[0-9]+(:[0-9]+)?`), "ADDRESS"},
	{regexp.MustCompile(`127\.[0-9.]+:[0-9]+`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`UUID UUID`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "COMMIT"},
	// Which request meets a trouble first, and in which way a connection ends, is
	// chance.
	{regexp.MustCompile(`unreachable: (Get|Post|Patch|Delete) "https://ADDRESS[^"]*": [^;)|]*`), "unreachable: REQUEST: …"},
	{regexp.MustCompile(`(GET|POST|PATCH|DELETE) /redfish/v1\S* answered (403|5[0-9][0-9])`), "REQUEST answered $2"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "DIGEST"},
	{regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`), "SHA256:FINGERPRINT"},
	{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z| UTC)?( [+-]\d{4} [A-Z]+)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b`), "TIME"},
}

func (p *troublePage) plain(text string) string {
	text = strings.ReplaceAll(text, p.w.dir+"/", "/")
	me, err := user.Current()
	check(p.w.t, err)
	text = strings.ReplaceAll(text, " by "+me.Username+": ", " by ada: ")
	for _, x := range passing {
		text = x.is.ReplaceAllString(text, x.as)
	}
	return text
}

const troubleIntro = `# Troubleshooting

This page lists what you read, what has happened, and what to do. A test does each of these things to a site of real processes and simulated BMCs, and
this page is what it then reads: in ` + "`slipway status`, `slipway why NODE`" + `, the warnings of the log (` + "`journalctl -u slipway -p warning`" + `), the
[metrics](metrics.md) and the [notifications](notifications.md). Addresses, digests, times and which request met the
trouble are left out.

To see what is wrong in a whole site at once, run ` + "[`slipway verify`](verify.md)" + `.
`

// hold compares the page with what was seen, or writes it.
func (p *troublePage) hold() {
	p.w.t.Helper()
	page := troubleIntro + p.text.String()
	if *update {
		check(p.w.t, os.WriteFile(troubleshooting, []byte(page), 0o644))
		return
	}
	if p.was != page {
		check(p.w.t, os.WriteFile(p.w.path("page.md"), []byte(page), 0o600))
		diff, _ := exec.Command("diff", "-u", troubleshooting, p.w.path("page.md")).CombinedOutput() // it fails when they differ
		p.w.t.Errorf("docs/troubleshooting.md is not what is said; `go test ./tests/e2e -run TestTroubleshooting -update` writes it:\n%s", diff)
	}
}
