package design

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// authority is a certificate as long as those of a site.
const authority = `-----BEGIN CERTIFICATE-----
MIIDAzCCAeugAwIBAgIUfYWhp5Mm9jDYf88HSC1qMyDrWEowDQYJKoZIhvcNAQEL
BQAwEDEOMAwGA1UEAwwFYmVuY2gwIBcNMjYxMTI5MDA1MzU5WhgPMjEyNjExMDUw
MDUzNTlaMBAxDjAMBgNVBAMMBWJlbmNoMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A
MIIBCgKCAQEArb4Cz6m/5vMD0mdTdQIO+gqYVrY70Lk/fIyBOcAlQXTSbyHOEBG3
Z3U+/ZXrgZ+lrUAmVkWyKFWd3mnjKxapR7LNbUZX/+FOXO52ZobulnC6WhcduJFa
EpVDlBGeI0GtT6apIbAClYQ62Wpn372BupXRmCXxL0v3ZyFf9nKSfKkjgoDoHFnp
/SvfHbhq0GA7vS1Ju3N3GkPGyM5RjkoLP5o+oRkLW2F7/SUyS5iRSb9eNY75HqQc
FBuMZ2KebhxQZiUn0INO7uMouibTRJGc7bxZdVDWHEPDZLEEgyP7+rK8HJCXCAt6
jnwdm8J7mKtzZavdsXhdOk9Qa/AuZbjR4wIDAQABo1MwUTAdBgNVHQ4EFgQUOrUd
r8Q/KVC5GmrySOdEeoarDd4wHwYDVR0jBBgwFoAUOrUdr8Q/KVC5GmrySOdEeoar
Dd4wDwYDVR0TAQH/BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOCAQEAG66nd5aTuTFz
Uev2MuWy2YLbbih2An02NZILWvFW6XTaZi/vsWejgD/QONVKpu2s/RchHeiQ+JNb
ZpGoCZLeRXWXXQ/5+t6RQra/ADqMMMHKYO+saJguVBtq4SfAmdhv1CyQqEfR4WpH
k/e5iO8vxpB6H7ZpC0I5hbUR7yBfsMRblH4uhUmqgxAgd61FESjRjRHHSyWdq3is
1MRdn7J7K9fNedjqI7a9lsh29JCc6snKqc0lN/R7H60PGQEqaGutPnwsi9GvyS9N
UfhyOR3dvWmW0jjKG6QdwTL49zomvuSbRtC6U7dq7/tiKTuAQH9x8lanyQURs5qG
kbQgiVbXog==
-----END CERTIFICATE-----`

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n\t\t") }

// generated is a site of n nodes in files of one rack each, as a person would
// write it.
func generated(n int) map[string]string {
	files := map[string]string{"site.cue": `package big

import "github.com/slipway-gitops/slipway/schema"

nodes: [string]:    schema.#Layer
profiles: [string]: schema.#Profile

roles: compute: {}
credentials: {bmc: {}, os: {}}
networks: {bmc: cidr: "10.0.0.0/12", os: cidr: "10.16.0.0/12"}
images: debian12: {
	url:    "https://images.example.org/debian12.iso"
	sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
}
profiles: base: {
	power: "on"
	boot: order: ["Hdd", "Pxe"]
	image: "debian12"
	endpoints: manager: trust: ca: """
		` + indented(authority) + `
		"""
}
profiles: hw: {parents: ["base"], hardware: {memory: "256GiB", sockets: 2}}
profiles: compute: {parents: ["base"], role: "compute", labels: {tier: "a", zone: "b"}}
nodes: [string]: {
	addresses: _
	endpoints: manager: url: "redfish+https://\(addresses.bmc)/redfish/v1/Systems/1"
	endpoints: os: url: "ssh://\(addresses.os)"
}
`}
	for rack := range (n + 39) / 40 {
		var b strings.Builder
		fmt.Fprintf(&b, "package big\n\nracks: r%d: {}\n", rack)
		for i := rack * 40; i < min(n, (rack+1)*40); i++ {
			fmt.Fprintf(&b, `
nodes: "compute-%d": {
	profiles: ["hw", "compute"]
	rack: "r%d"
	identity: {uuid: "4c4c4544-0051-4810-8057-%012x", serial: "S%d"}
	addresses: {bmc: "10.0.%d.%d", os: "10.16.%d.%d"}
	endpoints: os: trust: hostKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI%040d"]
}
`, i, rack, i, i, i/250, i%250+1, i/250, i%250+1, i)
		}
		files[fmt.Sprintf("rack-%d.cue", rack)] = b.String()
	}
	return files
}

// BenchmarkEvaluate evaluates generated sites by new workers each time, and
// says how much memory the result keeps here.
func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			files := repository(generated(n))
			for b.Loop() {
				e := &Evaluator{Command: []string{os.Args[0], asWorker}}
				before := heap()
				r, err := e.Evaluate(b.Context(), files, "")
				if err != nil || r.Site == nil || len(r.Site.Nodes) != n {
					b.Fatalf("got %v and %v", err, r.Findings)
				}
				after := heap()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(after-before)/(1<<20), "result-MiB")
				runtime.KeepAlive(r)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
