// Package week plays the first week of somebody who operates a site with Slipway: the
// package of docs/install.md under a real systemd, a repository on an SSH server, and
// the simulated machines of site-example. What that person reads is docs/week.md.
package week

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

var update = flag.Bool("update", false, "write docs/week.md")

const page = "../../../docs/week.md"

func TestMain(m *testing.M) { os.Exit(nspawn.Main(m)) }

func TestWeek(t *testing.T) {
	nspawn.Require(t, "ssh-keygen")
	d := begin(t)
	defer func() {
		if t.Failed() {
			t.Logf("so far:\n%s", d.page.String())
		}
	}()
	d.monday()
	d.tuesday()
	d.wednesday()
	d.thursday()
	d.friday()
	d.saturday()
	d.sunday()
	d.hold()
}

// diary is the week as it is read.
type diary struct {
	*nspawn.System
	t    *testing.T
	deb  string
	page strings.Builder
}

// begin makes a host that has the package, the lab and the site on it, and nothing
// installed.
func begin(t *testing.T) *diary {
	t.Helper()
	deb := nspawn.Only(t, nspawn.Packages(t), ".deb")
	d := &diary{System: nspawn.Boot(t, nspawn.Loopback), t: t, deb: filepath.Base(deb)}
	into := filepath.Join(d.Root, "root")
	for _, cmd := range [][]string{
		{"cp", "-r", deb, "../../../site-example", into},
		{"go", "build", "-o", filepath.Join(d.Root, "usr/bin/slipway-lab"), "../../../cmd/slipway-lab"},
	} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	// A Git server, ana's working copy with her key, the machines' accounts, the lab.
	d.Does(`useradd -m -s /usr/bin/git-shell git; useradd -m ana
		git init -q --bare -b main /home/git/site.git
		cp -r /root/site-example /home/ana/site; rm -rf /home/ana/site/virtual; cd /home/ana/site
		git init -q -b main; git config user.name Ana; git config user.email ana@example.org
		git add -A; git commit -qm 'the site'; git push -q /home/git/site.git main; chown -R git: /home/git
		ssh-keygen -A >/dev/null; systemctl restart ssh
		echo "127.0.0.1 $(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)" >/root/known_hosts
		ssh-keygen -q -t ed25519 -N '' -f /root/key
		ssh-keygen -q -t ed25519 -N '' -f /root/os
		install -d -o ana -m 700 /home/ana/.ssh; install -o ana -m 600 /root/key /home/ana/.ssh/id_ed25519; install -o ana -m 600 /root/known_hosts /home/ana/.ssh/known_hosts
		git -C /home/ana/site remote add origin ssh://git@127.0.0.1/home/git/site.git; chown -R ana: /home/ana
		install -D -o git -m 600 /root/key.pub /home/git/.ssh/authorized_keys; chown git: /home/git/.ssh
		install -d -m 700 /root/accounts
		(umask 077; printf 'hosts: 127.83.0.0/16\nuse: redfish\nports: 18443\nusername: admin\n\nthe-right-one\n' >/root/accounts/bmc
		printf 'hosts: 127.84.0.0/16\nuse: ssh\nports: 18022\nusername: admin\n\n' | cat - /root/os >/root/accounts/os)
		systemd-run -q --unit=lab slipway-lab run --site /root/site-example --credentials /root/accounts --blank compute-5,compute-6 --speed 60`)
	d.Comes("journalctl -u lab -o cat", "12 machines ready")
	d.page.WriteString(intro)
	return d
}

const intro = `# A week with Slipway

This tutorial is the first week of Ana, who operates a site: the package of [install](install.md) on a host with systemd, a repository on an SSH server,
and the 12 machines of [site-example](../site-example/README.md), simulated. A test runs every command and compares the output with this
page. Times, digests and commits are left out. "#" is root on the bootstrap host; "$" is Ana, who is in the group ` + "`slipway`" + `.
`

func (d *diary) day(name, text string) { fmt.Fprintf(&d.page, "\n## %s\n\n%s\n", name, text) }

func (d *diary) says(text string) { fmt.Fprintf(&d.page, "\n%s\n", text) }

// root writes down a command of root's and what it prints.
func (d *diary) root(words string) {
	d.t.Helper()
	d.note("# ", words, "cd /root; "+words)
}

// ana writes down a command of Ana's, in her working copy.
func (d *diary) ana(words string) {
	d.t.Helper()
	d.note("$ ", words, "cd /home/ana/site; exec runuser -u ana -- env SLIPWAY_AGENTS= sh -c "+quoted(words))
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (d *diary) note(prompt, shown, words string) {
	d.t.Helper()
	out, err := d.Run(words)
	fmt.Fprintf(&d.page, "\n    %s%s\n", prompt, strings.ReplaceAll(plain(shown), "\n", "\n    "))
	for line := range strings.Lines(plain(out)) {
		d.page.WriteString(strings.TrimRight("    "+strings.TrimRight(line, "\n"), " ") + "\n")
	}
	if err != nil {
		fmt.Fprintf(&d.page, "    [%v]\n", err)
	}
}

// write has Ana change a file of the design.
func (d *diary) write(from, to, file string) {
	d.t.Helper()
	d.Does(fmt.Sprintf("cd /home/ana/site; grep -qF %s %s; FROM=%s TO=%s perl -pi -e 's/\\Q$ENV{FROM}\\E/$ENV{TO}/' %s; chown ana: %s", quoted(from), file, quoted(from), quoted(to), file, file))
	fmt.Fprintf(&d.page, "\nIn `%s` she writes `%s` instead of `%s`.\n", file, strings.TrimSpace(to), strings.TrimSpace(from))
}

// push commits and pushes, and waits until it is in force.
func (d *diary) push(what string) {
	d.t.Helper()
	d.ana("git commit -qam '" + what + "' && git push -q origin main")
	d.Comes("slipway status", what)
}

// waits waits until what a command prints names each of these nodes among those that wait for approval: that comes
// once its disks were read.
func (d *diary) waits(command string, nodes ...string) {
	d.t.Helper()
	for _, node := range nodes {
		d.Comes(command, node+" (UUID")
	}
}

func (d *diary) monday() {
	d.day("Monday: install", "The package installs a unit, which does not start by itself.")
	d.root("dpkg -i " + d.deb + " 2>&1 | grep -v 'Reading database'")
	d.says("Ana sets the repository. With `--observe` the daemon looks at the machines and changes none. This week it looks at the machines alone:\n" +
		"with an empty `SLIPWAY_AGENTS`, in her shell too, nothing [inside their systems](helper.md) is looked at or set.")
	d.root(`cat >>/etc/slipway/slipway.env <<END
SLIPWAY_REPO=ssh://git@127.0.0.1/home/git/site.git
SLIPWAY_AGENTS=
SLIPWAY_FLAGS=--observe
END`)
	d.Does("cp /root/known_hosts /etc/slipway/; (umask 077; printf 'hosts: 127.0.0.1\\nuse: git\\n\\n' | cat - /root/key >/etc/slipway/credentials/git; cp /root/accounts/* /etc/slipway/credentials/)")
	d.root("usermod --append --groups slipway ana")
	d.root("systemctl enable --now slipway 2>&1")
	d.Comes("slipway status", "10/12 in-sync")
	d.waits("slipway status", "compute-5", "compute-6")
	d.ana("slipway status")
	d.says("`check`, `why` and `plan` name what is designed and not acted on, so that nobody takes it for done.")
	d.ana("slipway check | tail -n 7")
	d.Comes("slipway why compute-1", "inventory") // which is looked at last, and in its own time
	d.ana("slipway why compute-1")
	d.ana("slipway plan --detailed-exitcode | tail -n 5")
}

func (d *diary) tuesday() {
	d.day("Tuesday: let it act", "The daemon would do what Ana expects, so she lets it act.")
	d.root("sed -i /--observe/d /etc/slipway/slipway.env && systemctl restart slipway")
	d.waits("slipway approve", "compute-5", "compute-6")
	d.ana("slipway approve")
	set := regexp.MustCompile(`slipway approve ([0-9a-f]{32})`).FindStringSubmatch(d.Does("slipway approve"))
	if set == nil {
		d.t.Fatal("no set waits for approval")
	}
	d.ana("slipway approve " + set[1])
	d.Comes("slipway status", "12/12 in-sync")
	d.ana("slipway status")
	d.ana("slipway history compute-5 | tail -n 8")
	d.says("The site key has no copy yet. The status says so until Ana makes one.")
	d.root("slipway site export-key /root/site.key")
}

func (d *diary) wednesday() {
	d.day("Wednesday: a change", "Compute nodes must boot from the network before their disk. `check` finds a mistake before it is committed.")
	d.write(`boot: order: ["Hdd"]`, `boot: order: ["Pxe", "Hd"]`, "profiles.cue")
	d.ana("slipway check --output text | tail -n 9")
	d.write(`"Hd"]`, `"Hdd"]`, "profiles.cue")
	d.ana("slipway diff HEAD .")
	d.ana("slipway plan | tail -n 22")
	d.push("compute nodes try the network first")
	d.Comes("slipway status", "12/12 in-sync")
	d.ana("slipway status | head -n 8")
	d.ana("slipway history compute-1 | tail -n 4")
}

func (d *diary) thursday() {
	d.day("Thursday: three in the morning", "Two BMCs do not answer. The account on a third has lost its rights.")
	d.Does("slipway-lab machine compute-1 --fault refuse; slipway-lab machine compute-2 --fault refuse; slipway-lab machine compute-3 --fault forbidden")
	d.Comes("slipway status", "9/12 in-sync")
	d.ana("slipway status | tail -n 5")
	d.ana("slipway why compute-1")
	d.ana("slipway why compute-3")
	d.root("journalctl -u slipway -p warning -o cat --no-pager | grep msg=machine | sort -t= -k4")
	d.says("The switch is repaired, and the account has its rights again.")
	d.Does("for n in compute-1 compute-2 compute-3; do slipway-lab machine $n --fault none; done")
	d.ana("slipway retry compute-3")
	d.Does("for n in compute-1 compute-2; do slipway retry $n; done")
	d.Comes("slipway status", "12/12 in-sync")
	d.root("journalctl -u slipway -o cat --no-pager | grep 'answers again' | sort")
}

func (d *diary) friday() {
	d.day("Friday: hands in the rack", "Ana pauses a machine while its memory is replaced. Meanwhile somebody switches another one off, and Slipway switches it on again.")
	d.ana("slipway pause compute-4 --reason 'new memory'")
	d.Does("slipway-lab machine compute-2 --power off")
	d.Comes("slipway history compute-2", "power-on")
	d.Comes("slipway status", "11/12 in-sync, 1 paused")
	d.ana("slipway history compute-2 | tail -n 4")
	d.ana("slipway status | tail -n 4")
	d.ana("slipway resume compute-4")
	d.ana("slipway quarantine compute-6 --reason 'odd noises'")
	d.Comes("slipway why compute-6", "power     off")
	d.ana("slipway why compute-6")
	d.ana("slipway release compute-6")
	d.Comes("slipway status", "12/12 in-sync")
}

func (d *diary) saturday() {
	d.day("Saturday: backup and upgrade", "Ana exports the records and installs the package again. Nothing else changes.")
	d.root("systemctl start slipway-backup; ls /var/lib/slipway-backup | sed s/[0-9]/N/")
	d.root("dpkg -i " + d.deb + " 2>&1 | grep -v 'Reading database'")
	d.Comes("slipway status", "12/12 in-sync")
	d.ana("slipway status | head -n 3")
}

func (d *diary) sunday() {
	d.day("Sunday: a machine goes", "Ana removes a machine from the design. Slipway keeps the node until somebody confirms the removal.")
	d.Does(`cd /home/ana/site; runuser -u ana -- perl -0pi -e 's/\n\t"compute-6": .*?\n\t\}\n//s' rack-3.cue`)
	d.ana("git diff --stat")
	d.push("compute-6 goes")
	d.Comes("slipway approve", "slipway approve compute-6 --shown")
	d.ana("slipway approve")
	d.ana("slipway status | tail -n 4")
	d.says("Ana confirms it.")
	shown := regexp.MustCompile(`slipway approve compute-6 --shown [0-9a-f]{32}`).FindString(d.Does("slipway approve"))
	d.ana(shown)
	d.Comes("slipway status", "11/11 in-sync")
	d.ana("slipway history | tail -n 5")
}

var passing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`slipway_[^ ]*_(amd64|arm64)\.deb`), "slipway_VERSION_amd64.deb"},
	{regexp.MustCompile(`\(0\.[^ )]*\)|\([^ )]*~[^ )]*\)`), "(VERSION)"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`UUID UUID`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "DIGEST"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "COMMIT"},
	{regexp.MustCompile(`ed25519:[A-Za-z0-9+/]{43}=`), "ed25519:KEY"},
	{regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`), "SHA256:FINGERPRINT"},
	{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z| UTC)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9]{2}:[0-9]{2}(:[0-9]{2})? UTC\b|\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b`), "TIME"},
	{regexp.MustCompile(`([0-9]+m)?<?\b[0-9]+m?s\b`), "Ns"},
	{regexp.MustCompile(`\b[0-9]+m ago`), "Ns ago"},
	{regexp.MustCompile(` {2,}Ns`), "  Ns"},
	{regexp.MustCompile(`Ns {2,}`), "Ns  "},
	{regexp.MustCompile(`SINCE +`), "SINCE  "},
	{regexp.MustCompile(`POWER +`), "POWER  "},
	{regexp.MustCompile(`Ns ago {2,}`), "Ns ago  "},
	{regexp.MustCompile(`(GID|UID) [0-9]+`), "$1 N"},
	{regexp.MustCompile(`(GET|POST|PATCH|DELETE|Get|Post|Patch|Delete) "?(https://[^" ]*|/redfish/v1\S*)"?`), "REQUEST"},
	{regexp.MustCompile(`read tcp [0-9.:]+: read: connection reset by peer`), "EOF"}, // either, as it happens
}

// plain is an output without what is another each time.
func plain(text string) string {
	for _, x := range passing {
		text = x.is.ReplaceAllString(text, x.as)
	}
	return text
}

// hold compares the page with what was read, or writes it.
func (d *diary) hold() {
	d.t.Helper()
	if *update {
		if err := os.WriteFile(page, []byte(d.page.String()), 0o644); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		d.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), d.page.String()); diff != "" {
		d.t.Errorf("docs/week.md is not what is read (-update writes it): want (-), got (+)\n%s", diff)
	}
}
