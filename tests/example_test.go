package tests

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"cuelang.org/go/cue/format"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

var update = flag.Bool("update", false, "rewrite the keys of site-example")

const (
	exampleDir  = "../site-example"
	exampleKeys = exampleDir + "/inventory/keys.cue"
	// exampleSeed is what the lab is started with for the example.
	exampleSeed = "example"
)

// The example trusts the keys and names the image of the lab that is started
// for it, so that neither can drift from the other.
func TestSiteExampleFitsTheLab(t *testing.T) {
	r := design.EvaluateHere(os.DirFS(exampleDir), "")
	if r.Site == nil {
		t.Fatalf("the example is broken: %v", r.Findings)
	}
	want := keysFile(t, r.Site.NodeNames())
	if *update {
		if err := os.WriteFile(exampleKeys, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(exampleKeys); err != nil || string(got) != want {
		t.Errorf("%s has other keys than the lab (%v); run this test with -update", exampleKeys, err)
	}
	installed := 0
	for _, n := range r.Site.Nodes {
		if n.Generation == 0 {
			continue
		}
		installed++
		got, want := r.Site.Images[n.Image].For(n.Name, n.Generation).SHA256, lab.ImageSHA256(exampleSeed, n.Image, n.Name, n.Generation)
		if got != want {
			t.Errorf("the image %s has the digest %q for %s, the lab's is %s", n.Image, got, n.Name, want)
		}
	}
	if installed == 0 {
		t.Error("nothing is installed in the example")
	}
}

// The virtual rack is a site of its own, since the lab has no hypervisor.
func TestVirtualExample(t *testing.T) {
	r := design.EvaluateHere(os.DirFS(exampleDir+"/virtual"), "")
	if r.Site == nil || len(r.Findings) > 0 {
		t.Fatalf("findings: %v", r.Findings)
	}
	for _, name := range []string{"db-1", "web-1", "web-2"} {
		if n := r.Site.Nodes[name]; n == nil || n.Style != site.StyleVirtual || n.Generation != 1 {
			t.Errorf("%s is %+v", name, n)
		}
	}
}

// keysFile is the example's file of public keys, as the lab has them.
func keysFile(t *testing.T, nodes []string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("package inventory\n\n// The SSH host keys of the installed systems, by node.\nhostKeys: {\n")
	for _, n := range nodes {
		fmt.Fprintf(&b, "\t%q: %q\n", n, lab.HostKey(exampleSeed, n))
	}
	b.WriteString("}\n\n// The authority that signs the certificates of the management controllers.\nca: \"\"\"\n")
	for line := range strings.Lines(string(lab.CAPEM(exampleSeed))) {
		b.WriteString("\t" + line)
	}
	b.WriteString("\t\"\"\"\n")
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
