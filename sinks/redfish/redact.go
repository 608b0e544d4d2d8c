package redfish

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// redactor replaces what tells of one machine, site or person by stand-ins of
// the same form. They are numbered as they are met: one that was computed from
// a value would let short values be found by trying.
type redactor struct {
	standIns map[string]string // by what they stand for
	count    map[string]int    // by their form
	// versions are what looks like an address and is a version.
	versions map[string]bool
	// vocabulary are the names of properties, in one text: a value that is part
	// of one is replaced only where it stands alone.
	vocabulary string
	anywhere   *strings.Replacer
}

// redacted gives resources, and their paths, without what tells of the machine
// they are of. The own values are those that the one who read them knows.
func redacted(resources map[string]json.RawMessage, own []string) (map[string]json.RawMessage, error) {
	r := &redactor{standIns: map[string]string{}, count: map[string]int{}, versions: map[string]bool{}}
	paths := slices.Sorted(maps.Keys(resources))
	values := make(map[string]any, len(resources))
	var names strings.Builder
	for _, path := range paths {
		v, err := unpacked(resources[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		values[path] = withoutTexts(v)
		r.note(values[path], &names)
	}
	r.vocabulary = names.String()
	for _, v := range own {
		r.learnOwn(v)
	}
	for _, path := range paths {
		r.find("", path)
		r.learn(values[path], "", isRegistry(values[path]))
	}
	r.compile()
	out := make(map[string]json.RawMessage, len(resources))
	for _, path := range paths {
		text, err := packed(r.replaced(values[path], "", isRegistry(values[path])))
		if err != nil {
			return nil, err
		}
		out[r.text(path)] = text
	}
	return out, nil
}

func unpacked(text json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 64-bit numbers stay as they are
	err = d.Decode(&v)
	return v, err
}

func packed(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// isRegistry says whether a resource describes properties: their names are no
// sign of what their values are there.
func isRegistry(v any) bool {
	o, _ := v.(map[string]any)
	kind, _ := o["@odata.type"].(string)
	return strings.Contains(kind, "Registry.") || strings.Contains(kind, "ActionInfo")
}

// entryFields are what is kept of the entry of a log. Its texts may hold
// whatever somebody typed.
var entryFields = []string{"Id", "Name", "EntryType", "Severity", "Created", "MessageId", "OemRecordFormat", "SensorType", "SensorNumber", "EntryCode", "Resolved", "Links"}

// withoutTexts takes the texts out of entries of logs.
func withoutTexts(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutTexts(v[i])
		}
	case map[string]any:
		kind, _ := v["@odata.type"].(string)
		entry := strings.HasPrefix(kind, "#LogEntry.")
		for name := range v {
			if entry && !strings.HasPrefix(name, "@") && !slices.Contains(entryFields, name) {
				delete(v, name)
				continue
			}
			v[name] = withoutTexts(v[name])
		}
	}
	return v
}

// note takes in the names of properties, and what is a version.
func (r *redactor) note(v any, names *strings.Builder) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			r.note(inner, names)
		}
	case map[string]any:
		for name, inner := range v {
			names.WriteString(name + "\n")
			if text, ok := inner.(string); ok && isVersion(name) {
				r.versions[text] = true
			}
			r.note(inner, names)
		}
	}
}

func isVersion(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "version") || strings.Contains(name, "revision")
}

// What properties of these names hold is replaced. The names are compared in
// lower case and without what is no letter or digit, by parts.
var (
	// telling say which machine, where, or whose it is.
	telling = []string{
		"serialnumber", "serialno", "servicetag", "servicecode", "assettag", "uuid", "guid", "durablename", "uniqueidentifier", "nodeid",
		"macaddr", "wwn", "wwpn", "wwnn", "eui64", "licenselist", "entitlementid", "hostname", "fqdn", "racname", "domainname",
		"username", "commonname", "subject", "issuer", "initiatorname", "targetname", "servername", "adminname", "ownername",
		"ntpserver", "nameserver", "dnsserver", "destination", "serveraddress", "syslogserver", "smtpserver", "proxyserver", "remotehost",
		"datacenter", "roomname", "aislename", "rackname", "postal", "street", "building", "contact", "email", "phone", "systemlocation",
		"syslocation", "latitude", "longitude", "binddn", "searchbase", "basedistinguished", "clientorigin", "userip", "identifier",
	}
	// hiding hold what nobody may know.
	hiding = []string{
		"password", "passphrase", "secret", "token", "communit", "privatekey", "encryptionkey", "licensekey", "activationkey", "keystring",
		"certificatestring", "hostkey", "publickey", "keytab", "modulus", "thumbprint", "fingerprint", "v3key", "ipmikey", "signaturestring",
	}
	// within are objects of which all texts tell.
	within = []string{"postaladdress", "placement", "contacts", "gps", "subject", "issuer"}
)

// kept are values that are everybody's.
var kept = map[string]bool{
	"enabled": true, "disabled": true, "available": true, "unavailable": true, "supported": true, "notsupported": true, "yes": true,
	"no": true, "on": true, "off": true, "true": true, "false": true, "auto": true, "manual": true, "static": true, "dhcp": true,
	"unlocked": true, "locked": true, "localhost": true, "root": true, "admin": true, "administrator": true, "userid": true,
	"operator": true, "readonly": true, "public": true, "local": true, "remote": true,
}

func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(s))
}

func contains(name string, parts []string) bool {
	name = plain(name)
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
}

func isKept(value string) bool {
	return kept[plain(value)] || site.IsPlaceholderSerial(value) || strings.HasPrefix(value, "/redfish/")
}

// sort says whether a property's value is to be hidden, or told of by a
// stand-in.
func sort(name string, all bool) (hide, tell bool) {
	if strings.HasPrefix(name, "@") || strings.Contains(name, "@Redfish") || strings.Contains(name, "@odata") {
		return false, false
	}
	return contains(name, hiding), all || contains(name, telling)
}

// learn takes in what is to be replaced in a value. The name is that of its
// property, or of the list's or object's of which everything tells.
func (r *redactor) learn(v any, name string, registry bool) {
	switch v := v.(type) {
	case string:
		hide, tell := sort(name, slices.Contains(within, plain(name)))
		if (tell || hide && len(v) > 5) && !registry {
			r.tell(v) // what is hidden may stand elsewhere, too
		}
		r.find(name, v)
	case []any:
		for _, inner := range v {
			r.learn(inner, name, registry)
		}
	case map[string]any:
		for _, inner := range slices.Sorted(maps.Keys(v)) {
			r.find("", inner)
			r.learn(v[inner], inside(name, inner), registry)
		}
	}
}

// inside is the name that counts for a property of an object.
func inside(object, property string) string {
	if slices.Contains(within, plain(object)) {
		return object
	}
	return property
}

// tell gives a value its stand-in.
func (r *redactor) tell(value string) {
	if _, known := r.standIns[value]; known || value == "" || isKept(value) || len(value) < 2 {
		return
	}
	if r.find("", value); r.standIns[value] == "" {
		r.standIns[value] = fmt.Sprintf("R%07d", r.next("text"))
	}
}

// learnOwn takes in a value that is replaced wherever it stands.
func (r *redactor) learnOwn(value string) {
	if len(value) < 3 || isKept(value) {
		return
	}
	r.tell(value)
}

func (r *redactor) next(form string) int {
	r.count[form]++
	return r.count[form]
}

// The forms that tell by themselves, whatever the property is called.
var (
	uuidForm  = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	macForm   = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\b(?:[0-9a-f]{2}-){5}[0-9a-f]{2}\b`)
	bareMAC   = regexp.MustCompile(`(?i)^[0-9a-f]{12}$`)
	ipv4Form  = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}`)
	ipv6Form  = regexp.MustCompile(`(?i)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}`)
	iqnForm   = regexp.MustCompile(`(?i)\b(?:iqn\.\d{4}-\d{2}\.|nqn\.\d{4}-\d{2}\.|naa\.|eui\.)[^\s"',;]+`)
	emailForm = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`)
	// blobs are wiped and not counted: certificates and keys.
	blobForm = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)|\b(?:ssh-[a-z0-9]+|ecdsa-sha2-\S+) [A-Za-z0-9+/=]{16,}[^"\n]*`)
)

// find takes in what has a telling form in a text.
func (r *redactor) find(name, text string) {
	for _, s := range uuidForm.FindAllString(text, -1) {
		r.learnUUID(s)
	}
	for _, s := range macForm.FindAllString(text, -1) {
		r.learnMAC(s)
	}
	if strings.Contains(plain(name), "mac") && bareMAC.MatchString(text) {
		r.learnMAC(text)
	}
	for _, s := range iqnForm.FindAllString(text, -1) {
		r.stand(s, func(n int) string { return fmt.Sprintf("iqn.2000-01.org.example:r%d", n) })
	}
	for _, s := range emailForm.FindAllString(text, -1) {
		r.stand(s, func(n int) string { return fmt.Sprintf("someone-%d@example.org", n) })
	}
	if !isVersion(name) {
		r.findAddresses(text)
	}
}

func (r *redactor) stand(value string, form func(n int) string) {
	if r.standIns[value] == "" {
		r.standIns[value] = form(r.next("other"))
	}
}

func (r *redactor) findAddresses(text string) {
	for _, s := range slices.Concat(ipv4Form.FindAllString(text, -1), ipv6Form.FindAllString(text, -1)) {
		a, err := netip.ParseAddr(s)
		if err != nil || r.versions[s] || r.standIns[s] != "" || everybodys(a) {
			continue
		}
		if a.Is4() {
			n := r.next("ipv4")
			r.standIns[s] = fmt.Sprintf("198.18.%d.%d", n>>8&0xff, n&0xff) // RFC 2544
			continue
		}
		r.standIns[s] = fmt.Sprintf("2001:db8::%x", r.next("ipv6")) // RFC 3849
	}
}

// everybodys are addresses that tell nothing, and netmasks.
func everybodys(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.Is4() && a.As4()[0] == 255
}

// learnUUID gives a UUID its stand-in, and one that is turned round that one
// turned round.
func (r *redactor) learnUUID(s string) {
	small := strings.ToLower(s)
	if site.IsPlaceholderUUID(small) || r.standIns[small] != "" {
		return
	}
	to := fmt.Sprintf("5e1d0000-0000-4000-8000-%012x", r.next("uuid"))
	for from, to := range map[string]string{small: to, site.TurnedRound(small): site.TurnedRound(to)} {
		for _, form := range []func(string) string{strings.ToLower, strings.ToUpper} {
			r.standIns[form(from)] = form(to)
			r.standIns[form(strings.ReplaceAll(from, "-", ""))] = form(strings.ReplaceAll(to, "-", ""))
		}
	}
	if r.standIns[s] == "" { // in mixed case
		r.standIns[s] = to
	}
}

func (r *redactor) learnMAC(s string) {
	bare := plain(s)
	if strings.Trim(bare, "0") == "" || strings.Trim(bare, "f") == "" || r.standIns[bare] != "" {
		return
	}
	n := r.next("mac")
	to := fmt.Sprintf("02005e%02x%02x%02x", n>>16&0xff, n>>8&0xff, n&0xff)
	for _, between := range []string{":", "-", ""} {
		for _, form := range []func(string) string{strings.ToLower, strings.ToUpper} {
			r.standIns[form(paired(bare, between))] = form(paired(to, between))
		}
	}
	if r.standIns[s] == "" {
		r.standIns[s] = to
	}
}

// paired is a text with something between each two of its letters.
func paired(s, between string) string {
	var parts []string
	for pair := range slices.Chunk([]byte(s), 2) {
		parts = append(parts, string(pair))
	}
	return strings.Join(parts, between)
}

// compile makes the replacer of all that is replaced wherever it stands, the
// longest first.
func (r *redactor) compile() {
	var all []string
	for value := range r.standIns {
		if r.unmistakable(value) {
			all = append(all, value)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, value := range all {
		pairs = append(pairs, value, r.standIns[value])
	}
	r.anywhere = strings.NewReplacer(pairs...)
}

// unmistakable says whether a value is itself within other words too. A short
// one, or a word that properties have in their names, is not.
func (r *redactor) unmistakable(value string) bool {
	digits := strings.ContainsAny(value, "0123456789")
	switch {
	case len(value) < 5:
		return false
	case digits && len(value) >= 8:
		return true
	}
	return !strings.Contains(r.vocabulary, value)
}

// replaced is a value with its stand-ins.
func (r *redactor) replaced(v any, name string, registry bool) any {
	switch v := v.(type) {
	case string:
		if hide, _ := sort(name, false); hide && !registry && v != "" && !isKept(v) {
			return "redacted"
		}
		return r.text(v)
	case json.Number:
		if _, tell := sort(name, false); tell && !registry && len(v) > 4 {
			return 0
		}
	case []any:
		for i := range v {
			v[i] = r.replaced(v[i], name, registry)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for inner, value := range v {
			out[r.anywhere.Replace(inner)] = r.replaced(value, inside(name, inner), registry)
		}
		return out
	}
	return v
}

// text is a text, or a path, with its stand-ins.
func (r *redactor) text(s string) string {
	if to := r.standIns[s]; to != "" {
		return to
	}
	s = blobForm.ReplaceAllString(s, "redacted")
	if strings.HasPrefix(s, "/") {
		parts := strings.Split(s, "/")
		for i, part := range parts {
			if to := r.standIns[part]; to != "" && strings.ContainsAny(part, "0123456789") {
				parts[i] = to
			}
		}
		s = strings.Join(parts, "/")
	}
	return r.anywhere.Replace(s)
}
