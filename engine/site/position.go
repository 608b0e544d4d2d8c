package site

// MaxUnits is the greatest height of a rack, in units.
const MaxUnits = 100

// Position is where in its rack a machine is. Units are counted from below, from 1.
type Position struct {
	// Unit is the lowest unit that the machine takes; 0 if the design does not say it.
	Unit int `json:"unit,omitempty"`
	// Height is how many units it takes; 0 means one.
	Height int `json:"height,omitempty"`
	// Enclosure is what it shares its units with other nodes in; empty for a machine
	// that has them for itself.
	Enclosure string `json:"enclosure,omitempty"`
}

// Top returns the highest unit that the machine takes. It is 0 where the unit is not
// known.
func (p Position) Top() int {
	if p.Unit == 0 {
		return 0
	}
	return p.Unit + max(1, p.Height) - 1
}
