package blank

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// bound is what a compromised machine has to be off within, from the push of the commit on.
const bound = 30 * time.Second

// TestProveIncidentOnRealSystems has one of three real systems compromised: an emulated computer that Slipway has
// installed. The other two are running systems in containers, behind simulated BMCs. Whatever root of the machine, or
// somebody who was there, could take along is taken along and tried, by ssh, curl and openssl: it opens what it opens before, and nothing
// once it was replaced, on the other two and on the machine after it was erased and installed again.
func TestProveIncidentOnRealSystems(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("builds an image and installs an emulated machine twice, which takes most of an hour: set SLIPWAY_PROVE")
	}
	w := &designed{world: &world{t: t}, systems: map[string]*nspawn.System{}, stage: stage{manager: "bmc", bmcEpoch: 1, ssh: []int{1}, tls: []int{1}, signs: 1, generation: 1}}
	if !w.enters(200*time.Minute, w.builds, "qemu-system-x86_64", "mmdebstrap", "ssh", "sshd", "ip", "curl", "openssl") {
		return
	}
	w.prepares()
	w.people()
	w.begins()
	w.plays(w.installs())
}

// plays is the incident, from the installed systems on, until it is ended.
func (w *designed) plays(token string) {
	t, began := w.t, time.Now()
	t.Helper()
	told := func(what string) { t.Logf("%6.0f s: %s", time.Since(began).Seconds(), what) }
	l := w.takes(token)
	w.all("before the incident", accepted, l.everywhere())
	w.all("before the incident, at the API", accepted, []attempt{w.asCaller("people/ana")})
	told("what was taken opens everything")
	w.declares()
	told("the machine is off")
	w.replaces()
	told("the other two have new secrets")
	w.all("while the machine is off", refused, l.atOthers())
	w.rebuilds()
	told("erased, installed again and in-sync")
	w.all("after the rebuild, at the other two", refused, l.atOthers())
	w.all("after the rebuild, at the machine", refused, l.atMachine())
	w.isFresh(l)
	w.refusesOldIdentity(l)
	told("everything was tried and refused")
	w.isClear()
	told("every credential is replaced, and the incident is ended")
}

// people makes an authority for certificates of persons, and one person who may look at everything.
func (w *designed) people() {
	w.t.Helper()
	w.does("sh", "-ec", `mkdir -p people/ana people/api; cd people
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj "/CN=people" -days 2 2>/dev/null
for who in ana api; do
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $who/key.pem -out $who/req.pem -subj "/CN=$who" 2>/dev/null
	printf 'extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$([ $who = api ] && echo IP:10.5.0.1 || echo email:ana@example.org)" >$who/ext
	openssl x509 -req -in $who/req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $who/ext -out $who/cert.pem 2>/dev/null
done
printf 'role viewer: read audit\nperson ana@example.org: viewer\n' >access.conf; chmod 0644 access.conf`)
}

func (w *designed) begins() {
	w.keeps("slipway-lab", "run", "--fleet", w.at("fleet.json"), "--bmc-port", "18443", "--control", w.at("lab.sock"))
	w.keeps("slipway", "run", "--repo", w.at("site.git"), "--state", w.at("state"), "--credentials", w.at("credentials"), "--site-key", w.at("site.key"), "--identity", w.at("secrets.key"),
		"--ramdisk", w.at("ramdisk/slipway-ramdisk-amd64.iso"), "--artifact-files", w.at("images"),
		"--api", "10.5.0.1:8443", "--api-cert", w.at("people/api/cert.pem"), "--api-key", w.at("people/api/key.pem"), "--api-clients", w.at("people/ca.pem"), "--api-access", w.at("people/access.conf"))
}

// installs has the design in force on all three, and gives the token with which the agent was started.
func (w *designed) installs() (token string) {
	w.t.Helper()
	w.approvesLosses()
	token = w.readsToken()
	w.inSync(everyone, w.does("git", "-C", "work", "rev-parse", "HEAD"), patience)
	w.stage.manager = "bmc-own"
	w.stages()
	w.inSync(everyone, w.commits("log in with the derived passwords"), 5*time.Minute)
	return token
}

// approvesLosses approves what is to be erased once it waits.
func (w *designed) approvesLosses() {
	w.t.Helper()
	out := w.comes(10*time.Minute, `slipway approve [0-9a-f]{32}`, "status", "--state", w.at("state"))
	w.slipway("approve", regexp.MustCompile(`slipway approve ([0-9a-f]{32})`).FindStringSubmatch(out)[1], "--state", w.at("state"))
}

// readsToken reads the agent's token on the medium that the BMC has, as somebody in the network of BMCs can.
func (w *designed) readsToken() string {
	t := w.t
	t.Helper()
	ask := func(path string) string {
		out, _ := w.run("curl", "-sS", "--max-time", "20", "--cacert", w.at("bmc-ca.pem"), "-u", "admin:"+firstPassword, "https://"+bmcOf[compromised]+":18443"+path)
		return out
	}
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); <-time.After(time.Second) {
		for _, at := range regexp.MustCompile(`/redfish/v1/[A-Za-z0-9/]*VirtualMedia/[A-Za-z0-9]+`).FindAllString(ask("/redfish/v1/Managers/1/VirtualMedia")+ask("/redfish/v1/Systems/1/VirtualMedia"), -1) {
			url := regexp.MustCompile(`"Image": *"(http[^"]+)"`).FindStringSubmatch(ask(at))
			if url == nil {
				continue
			}
			out, err := w.run("sh", "-c", `curl -sSk "$0" -o medium.iso; grep -aoE '(slipway\.)?token=[a-z0-9]{20,}' medium.iso | head -n1`, url[1])
			if _, token, is := strings.Cut(out, "token="); is && err == nil {
				return token
			}
			t.Logf("the medium has no token: %s, %v", out, err)
		}
	}
	t.Fatalf("the BMC shows no medium: %s", ask("/redfish/v1/Managers/1/VirtualMedia"))
	return ""
}

// inSync waits until nodes are as a commit designs them.
func (w *designed) inSync(nodes []string, commit string, most time.Duration) {
	t := w.t
	t.Helper()
	var out string
	for began, last := time.Now(), ""; time.Since(began) < most; <-time.After(3 * time.Second) {
		out, _ = w.run(w.at("bin/slipway"), "status", "--state", w.at("state"), "--output", "json") // the daemon may not answer yet
		var status struct {
			Applied struct{ ID string } `json:"applied"`
			Nodes   []struct {
				Name, State, Reason, Detail string
				Commit                      string
			}
		}
		if json.Unmarshal([]byte(out), &status) != nil {
			continue
		}
		there, says := 0, ""
		for _, n := range status.Nodes {
			says += fmt.Sprintf("%s %s (%.100s); ", n.Name, n.State, n.Reason+n.Detail)
			if n.State == "in-sync" && slices.Contains(nodes, n.Name) {
				there++
			}
		}
		if says != last {
			last = says
			t.Logf("%5.0f s: %.8s %s", time.Since(began).Seconds(), status.Applied.ID, says)
		}
		if status.Applied.ID == commit && there == len(nodes) {
			return
		}
	}
	t.Fatalf("%q are not in-sync with %s:\n%s\nthe console:\n%s", nodes, commit, out, w.console())
}

// declares has the incident come by a commit, which a person confirms, and holds that the machine is off in time.
func (w *designed) declares() {
	t := w.t
	t.Helper()
	w.stage.incident = fmt.Sprintf("incidents: shell: {nodes: [%q], since: %q, reason: \"a shell that nobody opened\"}", compromised, since())
	w.stages()
	pushed := time.Now()
	w.commits("somebody was in " + compromised)
	for id := ""; ; {
		out, _ := w.run(w.at("bin/slipway"), "incident", "shell", "--state", w.at("state"))
		if m := regexp.MustCompile(`slipway compromise --confirm ([0-9a-f]{16,})`).FindStringSubmatch(out); m != nil {
			id = m[1]
			w.slipway("compromise", "--confirm", id, "--state", w.at("state"))
			break
		}
		if time.Since(pushed) > time.Minute {
			t.Fatalf("the incident does not wait for a person: %s", out)
		}
		<-time.After(200 * time.Millisecond)
	}
	for w.runs() {
		if time.Since(pushed) > 2*time.Minute {
			t.Fatal("the machine runs on")
		}
		<-time.After(50 * time.Millisecond)
	}
	off := time.Since(pushed)
	w.comes(time.Minute, `power seen off at`, "incident", "shell", "--state", w.at("state"))
	t.Logf("off %.1f s after the push, seen off after %.1f s", off.Seconds(), time.Since(pushed).Seconds())
	if off > bound {
		t.Errorf("the machine was off after %s, which is more than %s", off, bound)
	}
}

// runs reports whether the process that is the computer of the compromised machine is there.
func (w *designed) runs() bool {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(w.t, err)
	return slices.ContainsFunc(all, func(at string) bool {
		text, _ := os.ReadFile(at) // it may have ended
		return strings.Contains(string(text), "-name\x00"+compromised+"\x00")
	})
}

// replaces gives every secret of the list its next value, and replaces both authorities, in commits of which each
// leaves the systems reachable.
func (w *designed) replaces() {
	t := w.t
	t.Helper()
	key, err := os.ReadFile(w.at("deploy-2"))
	check(t, err)
	public, err := os.ReadFile(w.at("deploy-2.pub"))
	check(t, err)
	w.bmcFile(nextPassword)
	w.seals("deploy-key", "file", strings.TrimSpace(string(key)))
	w.seals("deploy-password", "account", nextDeploy)
	w.stage.deploy, w.stage.bmcEpoch = strings.TrimSpace(string(public)), 2
	w.stage.ssh, w.stage.tls = []int{1, 2}, []int{1, 2}
	w.stages()
	w.inSync(theOthers, w.commits("new secrets, and the next authorities"), 10*time.Minute)
	w.stage.signs = 2
	w.stages()
	w.inSync(theOthers, w.commits("the next authorities sign"), 10*time.Minute)
	w.stage.ssh, w.stage.tls = []int{2}, []int{2}
	w.stages()
	w.inSync(theOthers, w.commits("the earlier authorities go"), 10*time.Minute)
	if w.runs() {
		t.Error("the machine was started during the quarantine")
	}
}

// rebuilds has the machine erased and installed again.
func (w *designed) rebuilds() {
	t := w.t
	t.Helper()
	w.stage.generation = 2
	w.stages()
	commit := w.commits("install web-1 again")
	w.inSync(theOthers, commit, 5*time.Minute)
	w.slipway("release", compromised, "--incident", "shell", "--state", w.at("state"))
	w.approvesLosses()
	w.inSync(everyone, commit, patience)
	if out := w.slipway("erase-report", compromised, "--state", w.at("state")); !strings.Contains(out, "WEB1-A") {
		t.Errorf("the erase report does not name the disk:\n%s", out)
	}
}

// loot is what was taken along.
type loot struct {
	w         *designed
	token     string // of the agent
	sessions  map[string]string
	passwords map[string]string // derived, by node
	hostKey   string
}

// takes takes along what root of the machine can read, and what somebody at the host and in the network of BMCs can.
func (w *designed) takes(token string) *loot {
	t := w.t
	t.Helper()
	l := &loot{w: w, token: token, sessions: map[string]string{}, passwords: map[string]string{}}
	w.steals(compromised, "stolen", "/etc/ssh/ssh_host_ed25519_key", "/srv/deploy-key", "/etc/slipway-tls/web/key.pem", "/etc/slipway-tls/web/cert.pem", "/etc/slipway-tls/web/ca.pem", "/etc/ssh/ssh_host_ed25519_key.pub")
	w.steals(compromised, "stolen-certificate", "/etc/ssh/slipway-host/*ed25519*")
	l.hostKey = publicKey.FindString(read(t, w.at("stolen/ssh_host_ed25519_key.pub")))
	w.write("known-key", addressOf[compromised]+" "+l.hostKey+"\n")
	w.write("known-authority", w.slipway("ssh", compromised, "--known-hosts", "--state", w.at("state"))+"\n")
	for _, node := range everyone {
		w.write("intruder-"+node+"-cert.pub", w.slipway("ssh", node, "--key", w.at("intruder.pub"), "--ttl", "1h", "--state", w.at("state"))+"\n")
		var made struct{ Password string }
		check(t, json.Unmarshal([]byte(w.slipway("secret", "derive", node, "bmc account slipway", w.at("work"), "--site-key", w.at("site.key"), "--output", "json")), &made))
		l.passwords[node] = made.Password
		l.sessions[node] = w.opensSession(node, "slipway", made.Password)
	}
	return l
}

func read(t *testing.T, at string) string {
	t.Helper()
	text, err := os.ReadFile(at)
	check(t, err)
	return string(text)
}

// at is what is tried at a node.
func (l *loot) at(node string) []attempt {
	w := l.w
	return []attempt{
		w.byKey(node, "deploy", "stolen/deploy-key", ""), w.byPassword(node, "deploy", firstDeploy), w.byKey(node, "ops", "intruder", "intruder-"+node+"-cert.pub"),
		w.bmc(node, "admin", firstPassword), w.bmc(node, "slipway", l.passwords[node]), w.session(node, l.sessions[node]),
	}
}

// atOthers is what is tried at the other two, and at who trusts what they trust.
func (l *loot) atOthers() (all []attempt) {
	for _, node := range theOthers {
		l.w.steals(node, "trusted-"+node, "/etc/slipway-tls/web/ca.pem")
		all = append(all, append(l.at(node), l.w.asServer(compromised, "stolen", "trusted-"+node+"/ca.pem"))...)
	}
	return all
}

// atMachine is what is tried at the machine itself and at the daemon.
func (l *loot) atMachine() []attempt {
	w := l.w
	return append(l.at(compromised), w.asKnown(compromised, "known-key"), w.asKnown(compromised, "known-authority"), w.asCaller("stolen"), w.asAgent(l.token))
}

// everywhere is all of it that opens something as long as nothing was replaced.
func (l *loot) everywhere() []attempt {
	w := l.w
	return append(append(l.atOthers(), l.at(compromised)...), w.asKnown(compromised, "known-key"), w.asKnown(compromised, "known-authority"))
}

// isFresh holds that the machine has a new identity, which opens it.
func (w *designed) isFresh(l *loot) {
	t := w.t
	t.Helper()
	w.write("known-new", w.slipway("ssh", compromised, "--known-hosts", "--state", w.at("state"))+"\n")
	w.all("with what is new", accepted, []attempt{
		w.asKnown(compromised, "known-new"), w.byKey(compromised, "deploy", "deploy-2", ""), w.byPassword(compromised, "deploy", nextDeploy), w.bmc(compromised, "admin", nextPassword),
	})
	w.steals(compromised, "new", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub", "/srv/deploy-key", "/etc/slipway-tls/web/key.pem", "/etc/slipway-tls/web/cert.pem", "/etc/slipway-tls/web/ca.pem", "/etc/slipway/marker.json")
	for _, file := range []string{"ssh_host_ed25519_key", "deploy-key", "key.pem", "cert.pem", "ca.pem"} {
		if read(t, w.at("new/"+file)) == read(t, w.at("stolen/"+file)) {
			t.Errorf("%s is the same as before", file)
		}
	}
	if marker := read(t, w.at("new/marker.json")); !regexp.MustCompile(`"generation": ?2`).MatchString(marker) {
		t.Errorf("the marker is %s", marker)
	}
}

// refusesOldIdentity has somebody answer at the machine's address with its earlier host key and certificate.
func (w *designed) refusesOldIdentity(l *loot) {
	t := w.t
	t.Helper()
	w.does("sh", "-ec", "ip link set tap0 down; ip addr add 10.5.0.10/32 dev br0; mkdir -p /run/sshd; chmod 600 stolen/ssh_host_ed25519_key")
	server := exec.Command("/usr/sbin/sshd", "-D", "-f", "/dev/null", "-h", w.at("stolen/ssh_host_ed25519_key"), "-o", "HostCertificate="+w.at("stolen-certificate/ed25519"), "-o", "ListenAddress=10.5.0.10", "-o", "PidFile=none")
	check(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		w.does("sh", "-ec", "ip addr del 10.5.0.10/32 dev br0; ip link set tap0 up")
	}()
	for end := time.Now().Add(time.Minute); ; <-time.After(200 * time.Millisecond) {
		// Who knows the earlier key takes it for the machine, and is asked for a login.
		_, said := w.ssh(w.at("known-key"), "nobody@10.5.0.10", "-o", "BatchMode=yes")
		if strings.Contains(said, "Permission denied") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the impostor does not show the earlier identity: %s", said)
		}
	}
	w.all("by who answers with the earlier identity", refused, []attempt{{"the new line of known_hosts", func() (outcome, string) {
		is, said := w.ssh(w.at("known-new"), "nobody@10.5.0.10", "-o", "BatchMode=yes")
		if strings.Contains(said, "Permission denied") {
			return accepted, said // the server was believed, and asked for a login
		}
		return is, said
	}}, {"slipway ssh", func() (outcome, string) {
		out, err := w.run(w.at("bin/slipway"), "ssh", compromised, "--state", w.at("state"), "--", "true")
		switch {
		case err == nil || strings.Contains(out, "Permission denied"):
			return accepted, out
		case strings.Contains(out, "ost key verification failed") || strings.Contains(out, "host key is known"):
			return refused, out
		}
		return unknown, out
	}}})
	w.slipway("retry", compromised, "--state", w.at("state"))
	w.comes(3*time.Minute, `(?i)host key`, "status", "--all", "--state", w.at("state"))
}

// isClear waits until every credential is replaced, and ends the incident. Certificates of the node stay in its list until
// they are over, although the authorities that signed them are in no design any more.
func (w *designed) isClear() {
	t := w.t
	t.Helper()
	w.inSync(everyone, w.does("git", "-C", "work", "rev-parse", "HEAD"), 5*time.Minute)
	for end := time.Now().Add(5 * time.Minute); ; <-time.After(3 * time.Second) {
		out := w.slipway("incident", "shell", "--state", w.at("state"))
		left := regexp.MustCompile(`(?m)^\d+\. credential [^\n]*\n(?:  +also held[^\n]*\n)?  +(?:OLD VALUE|NEW VALUE|UNKNOWN)`).FindAllString(out, -1)
		if len(left) == 0 && strings.Contains(out, "credential deploy-key") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d credentials are not known to be replaced:\n%s", len(left), out)
		}
	}
	w.slipway("compromise", "--end", "shell", "--reason", "no system trusts the authorities of the certificates any more", "--state", w.at("state"))
}
