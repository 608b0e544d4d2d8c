package rule

import (
	"fmt"
	"net/url"

	"github.com/slipway-gitops/slipway/engine/site"
)

var artifacts = []Rule{
	{
		Code: "unknown-artifact", Severity: site.SeverityError, Firm: true,
		What:  "The artifact of firmware, of a file or of a driver is an entry in `artifacts`.",
		Why:   noMeaning,
		Wrong: `nodes: "n1": firmware: BIOS: {version: "2.20.1", artifact: "bios"}`,
		Right: `artifacts: bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `"}
nodes: "n1": firmware: BIOS: {version: "2.20.1", artifact: "bios"}`,
		Site: unknownArtifacts,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, u := range artifactUses(n) {
				found = append(found, refer(u.path, "artifacts", u.name, s.Artifacts)...)
			}
			return found
		},
	},
	{
		Code: "artifact-url", Severity: site.SeverityError,
		What:  "The URL of an artifact is an http or https URL with a host and without an account.",
		Why:   "Slipway fetches the artifact from there, and uses no other protocol and no login.",
		Wrong: `artifacts: bios: {url: "ftp://files.example.org/bios.bin", sha256: "` + someDigest + `"}` + usedBIOS,
		Right: `artifacts: bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `"}` + usedBIOS,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, name := range keys(s.Artifacts) {
				if text := s.Artifacts[name].URL; text != "" && !fetched(text) {
					found = append(found, wrong("artifacts."+name+".url",
						fmt.Sprintf("an artifact is fetched from an http or https URL with a host and without an account, not from %q", redacted(text)),
						"Write a URL such as https://files.example.org/bios.bin."))
				}
			}
			return found
		},
	},
	{
		Code: "artifact-conflict", Severity: site.SeverityError,
		What: "Two artifacts from one URL have one digest, and two with one digest one size, version and architecture.",
		Why:  "One of the two is not the file that is fetched: Slipway refuses it by its digest, or stores it under a wrong name.",
		Wrong: `artifacts: {
	bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `", version: "2.20.1"}
	other: {url: "https://files.example.org/other.bin", sha256: "` + someDigest + `", version: "2.21.0"}
}
bootActions: put: files: {"/opt/bios": artifact: "bios", "/opt/other": artifact: "other"}`,
		Right: `artifacts: {
	bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `", version: "2.20.1"}
	mirrored: {url: "https://mirror.example.org/bios.bin", sha256: "` + someDigest + `", version: "2.20.1"}
}
bootActions: put: files: {"/opt/bios": artifact: "bios", "/opt/other": artifact: "mirrored"}`,
		Site: artifactConflict,
	},
	{
		Code: "artifact-architecture", Severity: site.SeverityError,
		What: "The artifacts of a node are for its processors.",
		Why:  "The program does not start there, or the firmware is refused half way through an update.",
		Wrong: `artifacts: agent: {url: "https://files.example.org/agent", sha256: "` + someDigest + `", architecture: "arm64"}
nodes: "n1": {hardware: architecture: "amd64", system: files: "/usr/local/bin/agent": artifact: "agent"}`,
		Right: `artifacts: agent: {url: "https://files.example.org/agent", sha256: "` + someDigest + `", architecture: "amd64"}
nodes: "n1": {hardware: architecture: "amd64", system: files: "/usr/local/bin/agent": artifact: "agent"}`,
		Node: artifactArchitecture,
	},
	{
		Code: "firmware-version", Severity: site.SeverityError,
		What: "The version of firmware is that of the artifact that it is installed from.",
		Why:  "After the update the machine reports the artifact's version, which is not the designed one. So its firmware is never as designed.",
		Wrong: `artifacts: bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `", version: "2.21.0"}
nodes: "n1": firmware: BIOS: {version: "2.20.1", artifact: "bios"}`,
		Right: `artifacts: bios: {url: "https://files.example.org/bios.bin", sha256: "` + someDigest + `", version: "2.20.1"}
nodes: "n1": firmware: BIOS: {version: "2.20.1", artifact: "bios"}`,
		Node: firmwareVersion,
	},
}

// fetched reports whether Slipway can fetch something from a URL.
func fetched(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && u.User == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// usedBIOS uses the artifact of the examples.
const usedBIOS = "\nbootActions: put: files: \"/opt/bios\": artifact: \"bios\""

// redacted returns a URL without its password.
func redacted(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Redacted()
	}
	return text
}

// artifactUse is a reference to an artifact, and the path of the reference.
type artifactUse struct{ path, name string }

// artifactUses lists the artifacts of a node.
func artifactUses(n *site.Node) []artifactUse {
	var uses []artifactUse
	for _, component := range keys(n.Firmware) {
		uses = append(uses, artifactUse{"firmware." + component + ".artifact", n.Firmware[component].Artifact})
	}
	uses = append(uses, fileArtifacts("system.files", n.System.Files)...)
	for _, family := range keys(n.Families) {
		uses = append(uses, fileArtifacts("families."+family+".files", n.Families[family].Files)...)
	}
	return uses
}

func fileArtifacts(section string, files map[string]site.File) []artifactUse {
	var uses []artifactUse
	for _, path := range keys(files) {
		if name := files[path].Artifact; name != "" {
			uses = append(uses, artifactUse{section + "." + path + ".artifact", name})
		}
	}
	return uses
}

func unknownArtifacts(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Drivers) {
		for _, path := range keys(s.Drivers[key].Firmware) {
			found = append(found, refer("drivers."+key+".firmware."+path, "artifacts", s.Drivers[key].Firmware[path], s.Artifacts)...)
		}
	}
	for _, key := range keys(s.BootActions) {
		for _, u := range fileArtifacts("bootActions."+key+".files", s.BootActions[key].Files) {
			found = append(found, refer(u.path, "artifacts", u.name, s.Artifacts)...)
		}
	}
	return found
}

func artifactConflict(s *site.Site) []site.Finding {
	var found []site.Finding
	byURL, byDigest := map[string]string{}, map[string]string{}
	for _, name := range keys(s.Artifacts) {
		a, path := s.Artifacts[name], "artifacts."+name
		if first, ok := byURL[a.URL]; ok && a.URL != "" && differ(s.Artifacts[first].SHA256, a.SHA256) {
			found = append(found, also(s, "artifacts."+first+".sha256", wrong(path+".sha256",
				fmt.Sprintf("the artifacts %s and %s have one URL and two digests", first, name),
				"Keep the digest that `sha256sum` prints for the file, and one of the artifacts.")))
		} else if first, ok := byDigest[a.SHA256]; ok && a.SHA256 != "" && unlike(s.Artifacts[first], a) != "" {
			what := unlike(s.Artifacts[first], a)
			found = append(found, also(s, "artifacts."+first+"."+what, wrong(path+"."+what,
				fmt.Sprintf("the artifacts %s and %s have one digest and not the same %s", first, name, what),
				fmt.Sprintf("Correct the %s or the digest of one of them.", what))))
		}
		byURL[a.URL], byDigest[a.SHA256] = name, name
	}
	return found
}

// unlike names the field in which two artifacts with the same digest differ.
func unlike(a, b *site.Artifact) string {
	switch {
	case a.Size != 0 && b.Size != 0 && a.Size != b.Size:
		return "size"
	case differ(a.Version, b.Version):
		return "version"
	case differ(a.Architecture, b.Architecture):
		return "architecture"
	}
	return ""
}

// differ reports whether two values are both stated and different.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

func artifactArchitecture(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, u := range artifactUses(n) {
		a := s.Artifacts[u.name]
		if a != nil && differ(a.Architecture, n.Hardware.Architecture) {
			found = append(found, also(s, "artifacts."+u.name+".architecture", wrong(u.path,
				fmt.Sprintf("the artifact %s is for %s, and the processors are %s", u.name, a.Architecture, n.Hardware.Architecture),
				fmt.Sprintf("Use an artifact for %s.", n.Hardware.Architecture))))
		}
	}
	return found
}

func firmwareVersion(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, component := range keys(n.Firmware) {
		f := n.Firmware[component]
		a := s.Artifacts[f.Artifact]
		if a != nil && differ(a.Version, f.Version) {
			found = append(found, also(s, "artifacts."+f.Artifact+".version", wrong("firmware."+component+".version",
				fmt.Sprintf("the version of %s is %s, and the artifact %s is %s", component, f.Version, f.Artifact, a.Version),
				fmt.Sprintf("Write version: %q, or name another artifact.", a.Version))))
		}
	}
	return found
}
