// Package tests holds what spans packages: the import rules, the command line
// scripts and the laboratory.
package tests

import (
	"encoding/json"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/slipway-gitops/slipway/"

// rules is the import table of docs/architecture.md: which packages of ours
// each package may import, by pattern. A package that matches no row fails.
var rules = []struct{ importer, may string }{
	{"schema", ""},
	{"engine/bios", ""},
	{"engine/item", ""},
	{"engine/site", "engine/bios engine/item"},
	{"engine/serve", "engine/hostfile"},
	{"engine/confine", ""},
	{"engine/garbage", ""},
	{"engine/cleartext", "engine/site"},
	{"engine/keyfile", ""},
	{"engine/hostfile", ""},
	{"engine/access", "engine/hostfile engine/say engine/site"},
	{"engine/openid", "engine/access engine/hostfile engine/site"},
	{"engine/tpm", ""},
	{"engine/pkcs11", "engine/hostfile engine/keyfile"},
	{"engine/keyseal", "engine/keyfile engine/tpm engine/pkcs11"},
	{"engine/sealed", "engine/keyfile engine/keyseal engine/pkcs11"},
	{"engine/sops", "engine/sealed"},
	{"engine/vault", "engine/site"},
	{"engine/secret", "engine/site engine/hostfile engine/sealed engine/sops engine/vault"},
	{"engine/sshca", "engine/item"},
	{"engine/tlsca", ""},
	{"engine/derived", "engine/secret engine/site"},
	{"engine/artifact", "engine/site engine/serve engine/frames engine/qcow2 engine/confine"},
	{"engine/repo", "engine/site engine/secret"},
	{"engine/repo/repotest", "engine/repo engine/secret tests/port"},
	{"engine/window", "engine/site"},
	{"engine/plan", "engine/site engine/say engine/item engine/firstboot engine/layout"},
	{"engine/say", ""},
	{"engine/retry", ""},
	{"engine/supervise", "engine/retry"},
	{"engine/present", "engine/site engine/item engine/cleartext engine/say engine/plan"},
	{"engine/rollout", "engine/site engine/say engine/plan engine/window"},
	{"engine/ledger", "engine/site"},
	{"engine/review", "engine/access engine/incident engine/site engine/say engine/ledger engine/placement engine/plan engine/present engine/record engine/retry engine/rollout"},
	{"engine/sitekey", "engine/site engine/keyfile engine/keyseal engine/pkcs11"},
	{"engine/record", "engine/site engine/bios"},
	{"engine/record/recordtest", "tests/port"},
	{"engine/member", "engine/record engine/keyfile engine/serve"},
	{"engine/copies", "engine/artifact engine/record engine/serve engine/site engine/say engine/retry"},
	{"engine/placement", "engine/site engine/say"},
	{"engine/incident", "engine/site engine/say engine/item"},
	{"engine/firstboot", "engine/site engine/item"},
	{"engine/layout", "engine/site engine/item"},
	{"engine/frames", ""},
	{"engine/qcow2", ""},
	{"engine/firstboot/seed", "engine/site engine/secret engine/driver engine/sitekey engine/firstboot"},
	{"engine/forge", "engine/site engine/secret"},
	{"engine/driver", "engine/site engine/secret engine/item"},
	{"engine/driver/sshclient", "engine/site engine/driver engine/secret"},
	{"engine/driver/sshclient/sshdtest", ""},
	{"engine/driver/drivertest", "engine/site engine/driver engine/secret engine/plan engine/item"},
	{"engine/design", "engine/site engine/cleartext engine/confine engine/sealed engine/sops engine/design/author engine/design/rule schema"},
	{"engine/discovery", "engine/site engine/retry engine/secret engine/driver engine/design/author"},
	{"engine/design/author", "engine/site engine/item engine/say"},
	{"engine/design/rule", "engine/access engine/site engine/item engine/say engine/cleartext engine/window engine/layout engine/tlsca schema"},
	{"engine", "engine/access engine/incident engine/site engine/say engine/item engine/secret engine/retry engine/plan engine/present engine/review engine/rollout engine/record engine/driver engine/discovery engine/placement engine/firstboot engine/firstboot/seed engine/ledger engine/sitekey engine/sshca engine/derived engine/tlsca engine/artifact"},
	{"engine/control", "engine/site engine/access engine/openid engine/hostfile engine/item engine/plan engine/serve engine/artifact"},
	{"engine/web", "engine/site engine/access engine/say engine/present engine/control"},
	{"engine/sitereport", "engine/site engine/say engine/present"},
	{"engine/watch", "engine/site engine/say engine/present engine/access engine/control"},
	{"sources/*", "engine/site engine/secret engine/repo"},
	{"sinks/redfish", "engine/site engine/bios engine/secret engine/driver"},
	{"sinks/agent", "engine/site engine/item engine/secret engine/keyfile engine/driver engine/driver/sshclient sinks/agent/wire sinks/agent/inside"},
	{"sinks/agent/wire", "engine/item"},
	{"sinks/agent/ramdisk", "sinks/agent/wire engine/item"},
	{"sinks/agent/rootimage", ""},
	{"sinks/agent/start", "engine/item sinks/agent/wire sinks/agent/inside sinks/agent/inside/run sinks/agent/inside/hardware sinks/agent/inside/install sinks/agent/inside/links sinks/agent/inside/image sinks/agent/inside/base sinks/agent/inside/network sinks/agent/inside/packages sinks/agent/inside/config sinks/agent/inside/kernel"},
	{"sinks/agent/inside", "engine/item sinks/agent/wire"},
	{"sinks/agent/inside/run", "engine/item sinks/agent/wire sinks/agent/inside"},
	{"sinks/agent/inside/hardware", "engine/item sinks/agent/wire sinks/agent/inside sinks/agent/inside/disk"},
	{"sinks/agent/inside/image", "sinks/agent/wire engine/frames"},
	{"sinks/agent/inside/install", "engine/item sinks/agent/wire sinks/agent/inside sinks/agent/inside/boot sinks/agent/inside/disk sinks/agent/inside/erase sinks/agent/inside/image sinks/agent/inside/run sinks/agent/inside/tree"},
	{"sinks/agent/inside/kernel", "engine/item sinks/agent/wire sinks/agent/inside sinks/agent/inside/packages sinks/agent/inside/tree"},
	{"sinks/agent/inside/boot", "sinks/agent/wire sinks/agent/inside sinks/agent/inside/tree"},
	{"sinks/agent/inside/*", "engine/item sinks/agent/wire sinks/agent/inside sinks/agent/inside/netlink sinks/agent/inside/systemd sinks/agent/inside/tree"},
	{"sinks/libvirt", "engine/site engine/secret engine/driver engine/driver/sshclient"},
	{"sinks/commit", "engine/site engine/retry engine/secret engine/repo"},
	{"sinks/draft", "engine/site engine/secret engine/repo engine/forge"},
	{"sinks/github", "engine/site engine/secret engine/forge"},
	{"sinks/pullrequest", "engine/site engine/forge"},
	{"sinks/metrics", "engine/site engine/serve engine/secret engine/driver"},
	{"sinks/notify", "engine/site engine/say engine/secret"},
	{"sinks/netboot", "engine/site"},
	{"sinks/traces", "engine/site engine/secret engine/cleartext"},
	{"tests/lab", "engine/site engine/item sinks/agent/wire tests/qemu"},
	{"tests/switches", "engine/site"},
	{"tests/qemu", ""},
	{"tests/captures", ""},
	{"tests/collector", ""},
	{"tests/github", ""},
	{"tests/oidc", ""},
	{"tests/markdown", "tests/browser"},
	{"tests/browser", ""},
	{"tests/libvirt", ""},
	{"tests/docs", ""},
	{"tests/editor", ""},
	{"tests/nspawn", ""},
	{"tests/install", "tests/nspawn"},
	{"tests/inside", "*"},
	{"tests/target", "engine/site engine/item engine/layout sinks/agent/wire tests/nspawn tests/ramdisk/media"},
	{"tests/target/guest", "*"},
	{"tests/ramdisk", "engine/site sinks/agent sinks/netboot tests/nspawn tests/ramdisk/media"},
	{"tests/ramdisk/media", "sinks/agent/ramdisk"},
	{"tests/port", ""},
	{"tests/prometheus", ""},
	{"tests/model", "engine/site engine/ledger"},
	{"tests/terms", "engine/record engine/driver"},
	{"tests/failover/judge", ""},
	{"tests/failover", "tests/failover/judge"},
	{"tests/mutate", ""},
	{"tests/oracle", "engine/site"},
	{"tests/e2e", "*"},
	{"tests/e2e/crash", ""},
	{"tests/e2e/week", "tests/nspawn"},
	{"tests/e2e/blank", "tests/nspawn"},
	{"tests/bench/*", "*"},
	{"cmd/*", "*"},
}

// only says which packages alone may import a library.
var only = map[string][]string{
	"charm.land/bubbletea":                 {"engine/watch"},
	"github.com/charmbracelet":             {"engine/watch"},
	"filippo.io/age/plugin":                {"cmd/slipway"},
	"filippo.io/age":                       {"engine/sealed", "cmd/slipway"},
	"go.yaml.in/yaml":                      {"engine/sops"},
	"github.com/google/go-tpm":             {"engine/tpm"},
	"github.com/ebitengine/purego":         {"cmd/slipway-pkcs11"},
	"cuelang.org/go":                       {"engine/design", "engine/design/author", "engine/design/rule", "schema", "sinks/agent/rootimage"},
	"github.com/robfig/cron":               {"engine/window"},
	"github.com/go-git/go-git":             {"engine/repo", "engine/repo/repotest"},
	"github.com/google/go-github":          {"sinks/github"},
	"github.com/coreos/go-oidc":            {"engine/openid"},
	"golang.org/x/oauth2":                  {"engine/openid"},
	"github.com/golang-jwt/jwt":            {"sinks/github", "tests/github"},
	"github.com/getkin/kin-openapi":        {"tests/github"},
	"github.com/rogpeppe/go-internal/diff": {"engine/present", "cmd/slipway"},
	"github.com/yuin/goldmark":             {"tests/markdown"},
	"github.com/stmcginnis/gofish":         {"sinks/redfish", "tests/bench/redfish"},
	"go.opentelemetry.io":                  {"sinks/traces", "tests/collector"},
	"github.com/prometheus":                {"sinks/metrics"},
	"go.etcd.io/etcd":                      {"engine/record", "engine/record/recordtest"},
	"github.com/digitalocean":              {"sinks/libvirt", "tests/libvirt"},
	"github.com/diskfs":                    {"sinks/libvirt"},
	"libvirt.org/go":                       {"sinks/libvirt", "tests/libvirt"},
	"github.com/mdlayher/ndp":              {"sinks/netboot"},
	"github.com/insomniacslk/dhcp":         {"sinks/netboot", "sinks/agent/start", "tests/bench/install"},
	"github.com/ulikunitz/xz":              {"sinks/agent/ramdisk", "sinks/agent/inside/image"},
	"github.com/klauspost/compress":        {"sinks/agent/ramdisk", "sinks/agent/rootimage", "sinks/agent/inside/image", "engine/frames", "engine/qcow2"},
	"golang.org/x/crypto/ssh":              {"engine/repo", "engine/repo/repotest", "engine/driver/sshclient", "engine/sshca", "engine/firstboot/seed", "engine/sealed", "sinks/agent", "sinks/libvirt", "tests/libvirt", "tests/lab", "tests/bench/configure", "tests/bench/install", "cmd/slipway", "cmd/slipway-lab", "cmd/slipway-demo"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImports(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name == "tests" {
			continue
		}
		may, ok := allowed(name)
		if !ok {
			t.Errorf("%s is in no row of the import table: add it here and to docs/architecture.md", name)
		}
		for _, i := range p.Imports {
			ours, isOurs := strings.CutPrefix(i, module)
			if isOurs && may != "*" && !slices.Contains(strings.Fields(may), ours) {
				t.Errorf("%s imports %s; it may import: %s", name, ours, may)
			}
			checkOnly(t, name, i)
		}
	}
}

// The daemon is one static program: the library that loads foreign code is in none of its packages.
func TestDaemonLoadsNoModules(t *testing.T) {
	for program, has := range map[string]bool{"slipway": false, "slipway-pkcs11": true} {
		cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "ebitengine/purego") != has {
			t.Errorf("%s has the library that loads modules: %v, want %v", program, !has, has)
		}
	}
}

// The values that everyone shares stay free of everything.
func TestSiteImportsTheStandardLibraryOnly(t *testing.T) {
	listed := 0
	for _, p := range list(t) {
		if !slices.Contains([]string{module + "engine/site", module + "engine/bios", module + "engine/item"}, p.ImportPath) {
			continue
		}
		listed++
		for _, i := range p.Imports {
			if strings.Contains(i, ".") && i != module+"engine/bios" && i != module+"engine/item" {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
	if listed != 3 {
		t.Errorf("%d of 3 packages are listed", listed)
	}
}

// onlyAgent are the packages inside machines that the agent in memory alone has. They import
// libraries, and the helper must not import them.
var onlyAgent = []string{"sinks/agent/inside/image", "sinks/agent/inside/install"}

// What runs inside machines is brought to each of them: it imports the standard
// library, and of that nothing that makes it large.
func TestInsideImportsLittle(t *testing.T) {
	listed := 0
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name != "engine/item" && name != "sinks/agent/wire" && !strings.HasPrefix(name, "sinks/agent/inside") {
			continue
		}
		listed++
		for _, i := range p.Imports {
			ofAgent := slices.Contains(onlyAgent, name)
			if !ofAgent && slices.Contains(onlyAgent, strings.TrimPrefix(i, module)) {
				t.Errorf("%s imports %s, which the helper must not have", name, i)
			}
			if ofAgent && (strings.HasPrefix(i, "github.com/klauspost/compress") || i == "github.com/ulikunitz/xz/lzma" || i == "golang.org/x/sys/unix") {
				continue
			}
			if slices.Contains([]string{"net", "net/http", "net/url", "os/user", "crypto/tls", "crypto/x509", "C"}, i) || strings.Contains(i, ".") && !strings.HasPrefix(i, module) {
				t.Errorf("%s imports %s", name, i)
			}
		}
	}
	if listed < 4 {
		t.Errorf("only %d packages are listed", listed)
	}
}

func checkOnly(t *testing.T, name, imported string) {
	for library, importers := range only {
		if imported != library && !strings.HasPrefix(imported, library+"/") {
			continue
		}
		if !slices.ContainsFunc(importers, func(p string) bool { return matches(p, name) }) {
			t.Errorf("%s imports %s, which is for %s alone", name, imported, strings.Join(importers, ", "))
		}
	}
}

func allowed(name string) (string, bool) {
	for _, r := range rules {
		if matches(r.importer, name) {
			return r.may, true
		}
	}
	return "", false
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}
