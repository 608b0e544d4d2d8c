package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Scalars are strings, whole numbers (int64) and booleans by name.
type Scalars map[string]any

// UnmarshalJSON reads whole numbers as int64. A float64 would change those beyond
// 2^53, so that reading would not return what was written.
func (s *Scalars) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read map[string]any
	if err := d.Decode(&read); err != nil {
		return err
	}
	for name, v := range read {
		if n, ok := v.(json.Number); ok {
			whole, err := n.Int64()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			read[name] = whole
		}
	}
	*s = read
	return nil
}

// SettingText is the canonical form of a setting: a string unchanged, a boolean
// as "true" or "false", a number without an exponent.
func SettingText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
