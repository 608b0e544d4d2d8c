package redfish

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxName is the longest text that is kept of a part, in bytes.
const maxName = 128

// blanks are the words that firmware puts where it knows nothing.
var blanks = []string{"n/a", "na", "none", "null", "unknown", "not available", "not specified", "not applicable", "to be filled by o.e.m."}

// name is a short text at a path of names, empty for a word that says nothing.
func name(o object, path ...string) string {
	text := strings.Join(strings.Fields(words(o, path...)), " ")
	if slices.Contains(blanks, strings.ToLower(text)) {
		return ""
	}
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}

// number is a whole number at a path of names. Some BMCs send it as a text;
// what is none, or less than nothing, is 0.
func number(o object, path ...string) int64 { return int64(amount(o, path...)) }

// amount is a number of at most 2^53, which is the largest that JSON keeps.
func amount(o object, path ...string) float64 {
	raw := at[json.RawMessage](o, path...)
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1<<53 {
		return 0
	}
	return n
}

// part is what a resource tells of the part that it stands for.
func part(o object, names ...string) site.Part {
	return site.Part{
		ID: name(o, "Id"), Name: cmp.Or(names...), Manufacturer: name(o, "Manufacturer"), Model: name(o, "Model"),
		PartNumber: name(o, "PartNumber"), Serial: name(o, "SerialNumber"),
		Health: health(o), State: name(o, "Status", "State"),
	}
}

// health is a part's own, empty when the BMC does not say.
func health(o object) string { return healthBy(o, "Health", "HealthRollup", "HealthRollUp") }

// healthBy is OK, Warning or Critical by the first of some fields that says so.
// Old firmware (iLO 4) spells one of them HealthRollUp.
func healthBy(o object, fields ...string) string {
	for _, field := range fields {
		h := at[schemas.Health](o, "Status", field)
		if slices.Contains([]schemas.Health{schemas.OKHealth, schemas.WarningHealth, schemas.CriticalHealth}, h) {
			return string(h)
		}
	}
	return ""
}

// absent says whether a resource stands for an empty slot.
func absent(o object) bool { return name(o, "Status", "State") == string(schemas.AbsentState) }

// label is what is written beside the slot that a part is in.
func label(o object) string {
	return cmp.Or(name(o, "PhysicalLocation", "PartLocation", "ServiceLabel"), name(o, "Location", "PartLocation", "ServiceLabel"),
		name(o, "Slot", "Location", "PartLocation", "ServiceLabel"))
}

// mac is a MAC address in lower case with colons, empty for what is none: BMCs
// send them bare, with dashes, empty, and InfiniBand's GUIDs in their place.
func mac(text string) string {
	digits := strings.ToLower(strings.NewReplacer(":", "", "-", "", ".", "").Replace(strings.TrimSpace(text)))
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" || strings.Trim(digits, "0") == "" || strings.Trim(digits, "f") == "" {
		return ""
	}
	var pairs []string
	for i := 0; i < len(digits); i += 2 {
		pairs = append(pairs, digits[i:i+2])
	}
	return strings.Join(pairs, ":")
}
