package docs

import (
	"strings"
	"testing"
)

// heldBy are the pages whose commands another test runs.
var heldBy = map[string]string{
	"docs/week.md": "tests/e2e/week plays it under a systemd, and writes the page",
}

// unrun are commands that this test cannot run, with the reason. They are named by how
// they begin.
var unrun = []struct{ page, command, reason string }{
	{"README.md", "git clone ", "it needs the network"},
	{"README.md", "make ", "the programs of the demos have tests of their own"},
	{"docs/first-site.md", "git clone https://github.com/slipway-gitops/", "it needs the network"},
	{"docs/first-site.md", "make -C slipway", "the test has built the programs"},
	{"docs/first-site.md", "export PATH=", "the test has set it"},
	{"docs/first-virtual-machine.md", "apt-get ", "it changes the host; tests/e2e has a host with libvirt of its own"},
	{"docs/first-virtual-machine.md", "virsh ", "it needs libvirt; TestVirtualMachines of tests/e2e has one"},
	{"docs/first-virtual-machine.md", "wget ", "it needs the network"},
	{"docs/first-virtual-machine.md", "sha256sum ", "its file was not fetched"},
	{"docs/first-virtual-machine.md", "slipway run ", "it needs libvirt; TestVirtualMachines of tests/e2e has one"},
	{"docs/first-virtual-machine.md", "slipway status --watch", "no daemon runs"},
	{"docs/first-virtual-machine.md", "slipway approve", "no daemon runs"},
	{"docs/first-virtual-machine.md", "ssh ", "no virtual machine runs"},
	{"docs/blank.md", "slipway ramdisk build", "it needs a mirror of Debian; tests/ramdisk runs it"},
	{"docs/blank.md", "slipway image build", "it needs root and a mirror of Debian; tests/e2e/blank runs it"},
	{"docs/blank.md", "cd my-site && git init", "it pushes to a server of the reader's"},
	{"docs/blank.md", "slipway run ", "it needs the ramdisk; tests/e2e/blank plays the page on emulated servers"},
	{"docs/blank.md", "slipway approve ", "no server waits; tests/e2e/blank plays the page on emulated servers"},
	{"docs/blank.md", "slipway status --watch", "no daemon runs"},
	{"docs/blank.md", "slipway why ", "no daemon runs"},
	{"docs/blank.md", "slipway logs ", "no daemon runs"},
	{"docs/blank.md", "ssh ", "no server was installed"},
	{"docs/install.md", "", "it needs root and a systemd of its own; tests/install installs the package, backs up, restores and purges"},
	{"docs/status.md", "slipway status --watch", "no daemon runs; tests/script/statuswatch.txtar has one, and a terminal"},
	{"docs/status.md", "slipway report ", "no daemon runs; tests/script/report.txtar has one"},
	{"docs/api-access.md", "slipway token ", "it writes into /etc/slipway as root; tests/script/api.txtar runs it elsewhere"},
	{"docs/api-access.md", "slipway context ", "it needs a daemon with the API; tests/script/api.txtar has one"},
	{"docs/api-access.md", "slipway status --server", "no daemon has the API; tests/script/api.txtar has one"},
	{"docs/sites.md", "slipway run ", "it needs a server of the reader's; tests/script/sitesnews.txtar has a repository of its own"},
	{"docs/sites.md", "systemctl ", "it needs a systemd, and the state of a package; tests/script/manysites.txtar moves a state by the next lines"},
	{"docs/sites.md", "cd /var/lib/slipway", "it moves the state of a package"},
	{"docs/sites.md", "find . ", "it moves the state of a package; tests/script/manysites.txtar runs it elsewhere"},
	{"docs/sites.md", "git push ", "it needs a server of the reader's"},
	{"docs/sites.md", "slipway sites ", "the page shows sites of different age; tests/script/sitesnews.txtar runs it"},
	{"docs/oidc.md", "install -m", "no user slipway is here"},
	{"docs/oidc.md", "slipway ", "it needs a daemon with the API and an issuer; tests/script/login.txtar has both"},
	{"docs/api-access.md", "slipway audit", "no daemon runs; tests/script/api.txtar has one"},
	{"docs/api-access.md", "slipway grant", "no daemon has such a design; tests/script/grant.txtar has one"},
	{"docs/discovery.md", "slipway adopt --inside", "it needs installed systems; tests/script/adoptinside.txtar runs it"},
	{"docs/artifacts.md", "slipway artifact gc", "no daemon runs; tests/script/artifact.txtar has one"},
	{"docs/secrets.md", "slipway secret tpm", "it needs a TPM; tests/script/secretstpm.txtar has one"},
	{"docs/secrets.md", "slipway secret pkcs11", "it needs a token; tests/script/pkcs11.txtar has one"},
	{"docs/secrets.md", "pkcs11-tool ", "it needs a token; tests/script/pkcs11.txtar has one"},
	{"docs/secrets.md", "install -o", "no user slipway is here"},
	{"docs/site-key.md", "slipway site tpm", "it needs a TPM; tests/script/secretstpm.txtar has one"},
	{"docs/site-key.md", "slipway site pkcs11", "it needs a token; tests/script/pkcs11.txtar has one"},
	{"docs/secret-sources.md", "slipway secret derive", "it writes to a terminal alone; tests/script/secrets.txtar reads it as JSON"},
	{"docs/github.md", "slipway run ", "it needs the reader's repository; docs/first-pull-request.md runs it"},
	{"docs/images.md", "slipway image build", "it needs root and a mirror of Debian; tests/e2e/blank runs it"},
	{"docs/images.md", "cat web.cue", "it shows a file that its reader writes"},
	{"docs/ramdisk.md", "slipway ramdisk build", "it needs a mirror of Debian; tests/ramdisk runs it"},
	{"docs/netboot.md", "slipway status", "it needs a network interface for DHCP; sinks/netboot tests it"},
	{"docs/site-key.md", "systemctl ", "it needs a systemd; tests/install has one"},
	{"docs/site-key.md", "slipway take-over", "no daemon runs"},
	{"docs/certificates.md", "slipway certificate ", "no daemon runs; engine/tlscertify_test.go has one"},
	{"docs/certificates.md", "slipway why ", "no daemon runs; engine/tlscertify_test.go has one"},
	{"docs/ssh.md", "slipway why ", "no daemon runs; tests/script/ssh.txtar has one"},
	{"docs/ssh.md", "slipway ssh ", "no daemon runs; tests/script/ssh.txtar has one"},
	{"docs/members.md", "install -d", "no user slipway is here"},
	{"docs/members.md", "runuser ", "no user slipway is here"},
	{"docs/members.md", "slipway member init 10.0.0.1:2380 --restore", "a daemon runs; tests/script/members.txtar restores"},
	{"docs/members.md", "slipway state export --survivor", "a daemon runs; tests/script/members.txtar exports"},
	{"docs/web.md", "ssh ", "there is no such host"},
	{"docs/web.md", "slipway web ", "no daemon runs; cmd/slipway has tests of the page"},
	{"docs/verify.md", "slipway verify", "no daemon runs; tests/script/verify.txtar has one"},
	{"docs/compromise.md", "slipway ", "it switches machines off, and no daemon runs; tests/script/incident.txtar has one"},
	{"docs/metrics.md", "slipway run …", "the page leaves its flags out"},
	{"docs/notifications.md", "slipway run …", "the page leaves its flags out"},
	{"docs/traces.md", "slipway run …", "the page leaves its flags out; tests/script/traces.txtar sends traces"},
}

// notRun is the reason why a command is not run.
func notRun(page string, s step) string {
	for _, u := range unrun {
		if u.page == page && strings.HasPrefix(s.command, u.command) {
			return u.reason
		}
	}
	return ""
}

// listed holds the lists above to what is on the pages.
func listed(t *testing.T) {
	t.Helper()
	for _, u := range unrun {
		found := false
		for _, s := range readPage(t, u.page).steps {
			found = found || s.command != "" && strings.HasPrefix(s.command, u.command)
		}
		if !found {
			t.Errorf("list_test.go: no command of %s begins %q", u.page, u.command)
		}
		if len(u.reason) < 10 {
			t.Errorf("list_test.go: %s of %s has no reason", u.command, u.page)
		}
	}
}
