package libvirt

import (
	"context"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the namespace of our element in a domain's metadata, and its prefix.
const (
	namespace = "https://slipway-gitops.github.io/libvirt/1"
	prefix    = "slipway"
)

// owner is what a domain's metadata says about its owner. A volume is ours only if it is listed there. It is listed
// before it is made.
type owner struct {
	Site string `xml:"site,attr"`
	Node string `xml:"node,attr"`
	// Generation is the installation that the machine runs from, 0 before the first. Image is the SHA-256 of its
	// image.
	Generation int    `xml:"generation,attr,omitempty"`
	Image      string `xml:"image,attr,omitempty"`
	// Installing and Pulling are the generation and image of the installation in progress.
	Installing int         `xml:"installing,attr,omitempty"`
	Pulling    string      `xml:"pulling,attr,omitempty"`
	Volumes    []volume    `xml:"volume"`
	Seed       *volume     `xml:"seed"`
	Console    *consoleLog `xml:"console"`
}

// volume is a volume that was made for the machine, or is about to be.
type volume struct {
	Disk string `xml:"disk,attr,omitempty"` // its name in the design
	Pool string `xml:"pool,attr"`
	Name string `xml:"name,attr"`
}

// consoleLog is where libvirt logs the machine's console output.
type consoleLog struct {
	Pool string `xml:"pool,attr"`
	Name string `xml:"name,attr"` // the volume name in the pool
}

// disk is the volume of a disk, by its name in the design.
func (o owner) disk(name string) (volume, bool) {
	for _, v := range o.Volumes {
		if v.Disk == name {
			return v, true
		}
	}
	return volume{}, false
}

// volumesOf are all volumes of a disk. An installation that moves it to another pool or format lists the new volume
// before the old one is gone.
func (o owner) volumesOf(disk string) []volume {
	return slices.DeleteFunc(slices.Clone(o.Volumes), func(v volume) bool { return v.Disk != disk })
}

// lists reports whether a volume is one of the machine's disks or its seed.
func (o owner) lists(pool, name string) bool {
	for _, v := range o.Volumes {
		if v.Pool == pool && v.Name == name {
			return true
		}
	}
	return o.Seed != nil && o.Seed.Pool == pool && o.Seed.Name == name
}

// with adds a volume to the list.
func (o owner) with(v volume) owner {
	if !o.lists(v.Pool, v.Name) {
		o.Volumes = append(o.Volumes[:len(o.Volumes):len(o.Volumes)], v)
	}
	return o
}

// without removes a volume from the list.
func (o owner) without(v volume) owner {
	o.Volumes = slices.DeleteFunc(slices.Clone(o.Volumes), func(x volume) bool { return x == v })
	return o
}

// element is the owner's XML element for a definition's metadata.
func (o owner) element() string {
	return marshalXML(struct {
		XMLName xml.Name `xml:"slipway:machine"`
		Space   string   `xml:"xmlns:slipway,attr"`
		owner
	}{Space: namespace, owner: o})
}

// bare is the element without the namespace, which libvirt adds.
func (o owner) bare() string {
	return marshalXML(struct {
		XMLName xml.Name `xml:"machine"`
		owner
	}{owner: o})
}

// marshalXML is for values that cannot fail.
func marshalXML(v any) string {
	text, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ownerIn finds the owner in a domain's metadata; nil if there is none.
func ownerIn(metadata string) (*owner, error) {
	d := xml.NewDecoder(strings.NewReader(metadata))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return nil, nil // the end, or not XML and so not ours
		}
		start, ok := token.(xml.StartElement)
		if ok && depth == 0 && start.Name.Space == namespace && start.Name.Local == "machine" {
			var o owner
			if err := d.DecodeElement(&o, &start); err != nil {
				return nil, refused("the metadata of the machine cannot be understood: %v", err)
			}
			return &o, nil
		}
		depth += nesting(token)
	}
}

// nesting is how a token changes the depth.
func nesting(t xml.Token) int {
	switch t.(type) {
	case xml.StartElement:
		return 1
	case xml.EndElement:
		return -1
	}
	return 0
}

// withoutOwner cuts our elements out of metadata.
func withoutOwner(metadata string) string {
	dec := xml.NewDecoder(strings.NewReader(metadata))
	var rest strings.Builder
	kept, depth, ours := int64(0), 0, false
	for {
		from := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			break
		}
		start, ok := token.(xml.StartElement)
		if ok && depth == 0 && start.Name.Space == namespace {
			rest.WriteString(metadata[kept:from])
			ours = true
		}
		if depth += nesting(token); ours && depth == 0 {
			kept, ours = dec.InputOffset(), false
		}
	}
	rest.WriteString(metadata[kept:])
	return strings.TrimSpace(rest.String())
}

// volumeName is the name of a volume that is made for a machine. It contains a part of the UUID, because sites may
// share node names but not UUIDs.
func volumeName(node, uuid, disk, format string) string {
	return "slipway-" + node + "-" + uuid[:8] + "-" + disk + "." + format
}

// consoleName is the name of a machine's console file.
func consoleName(node, uuid string) string { return volumeName(node, uuid, "console", "log") }

// setOwner writes the owner into a domain's metadata, both current and for the next start.
func (m *machine) setOwner(ctx context.Context, c *connection, d *domain, o owner) error {
	impact := golibvirt.DomainAffectConfig
	if d.active() {
		impact |= golibvirt.DomainAffectLive
	}
	defer m.hypervisor.wrote(d.ref.UUID)
	err := tell(ctx, c, func(rpc *golibvirt.Libvirt) error {
		return rpc.DomainSetMetadata(d.ref, int32(golibvirt.DomainMetadataElement), golibvirt.OptString{o.bare()},
			golibvirt.OptString{prefix}, golibvirt.OptString{namespace}, impact)
	})
	if err != nil {
		return fmt.Errorf("note whose the machine is: %w", err)
	}
	d.owner = o
	return nil
}

// uuidOf reads a UUID in canonical form.
func uuidOf(text string) (uuid golibvirt.UUID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(uuid) {
		return uuid, refused("%q is not a UUID", text)
	}
	copy(uuid[:], b)
	return uuid, nil
}

// foreign says why a domain is not this machine's; empty when it is.
func (m *machine) foreign(d *domain) string {
	what := fmt.Sprintf("on %s there is a machine named %s with the UUID %s", m.where(), printable(d.ref.Name), textOf(d.ref.UUID))
	const then = "; Slipway does not touch it: rename or remove it, or name the node differently"
	switch {
	case !d.ours:
		return what + " that Slipway did not make" + then
	case d.owner.Site != m.site:
		return what + fmt.Sprintf(" that belongs to the site %s", printable(d.owner.Site)) + then
	case d.owner.Node != m.name:
		return what + fmt.Sprintf(" that belongs to the node %s of this site", printable(d.owner.Node)) + then
	case textOf(d.ref.UUID) != m.identity().UUID:
		return what + fmt.Sprintf(" that says it is this node, and its UUID should be %s", m.identity().UUID) + then
	}
	return ""
}

// identity is the machine's identity, which follows from the names of its site and node.
func (m *machine) identity() site.Identity {
	return site.Identity{UUID: site.MachineUUID(m.site, m.name)}
}

func textOf(uuid golibvirt.UUID) string {
	h := hex.EncodeToString(uuid[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// printable makes the hypervisor's text safe to show.
func printable(text string) string {
	return site.Shorten(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text), 80)
}
