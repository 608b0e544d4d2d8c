package rule

import "testing"

// Attributes that order the firmware to erase are told from those that set
// something up.
func TestAttributesThatErase(t *testing.T) {
	for _, c := range []struct {
		attribute, value string
		erases           bool
	}{
		{"PmmSanitizeOperation", "SanitizeOverwrite", true},
		{"PmmSanitizeOperation", "NoAction", false},
		{"NvdimmFactoryDefault", "NvdimmFactoryDefaultEnable", true},
		{"NvdimmFactoryDefault", "NvdimmFactoryDefaultDisable", false},
		{"TpmOperation", "Clear", true},
		{"TpmOperation", "NoAction", false},
		{"Tpm2Hierarchy", "Clear", true},
		{"Tpm2Hierarchy", "Enabled", false},
		{"TpmCommand", "None", false},
		{"PendingOperation_0067", "TPM Clear", true},
		{"PendingOperation_0067", "None", false},
		{"SecureErase_Disk0", "Enabled", true},
		{"SecureEraseSupport", "", false},
		{"ClearMemoryErrorLog", "Clear", false},
		{"LogicalProc", "Enabled", false},
	} {
		if got := orders(c.attribute, c.value); got != c.erases {
			t.Errorf("%s: %q erases: %t", c.attribute, c.value, got)
		}
	}
}
