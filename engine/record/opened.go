package record

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

const openedBelow = "secrets/"

// openedSecret is the newest value of an encrypted credential that was opened.
type openedSecret struct {
	Changed time.Time `json:"changed"`
}

// PutOpened records when the newest opened value of a credential was changed.
func (s *Site) PutOpened(ctx context.Context, credential string, changed time.Time) error {
	return s.put(ctx, openedBelow+url.PathEscape(credential), openedSecret{changed.UTC()})
}

// Opened returns for each credential when its newest opened value was changed.
func (s *Site) Opened(ctx context.Context) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	err := s.each(ctx, openedBelow, func(rest string, value []byte) error {
		name, err := nameOf(rest)
		if err != nil {
			return err
		}
		var o openedSecret
		if err := json.Unmarshal(value, &o); err != nil {
			return damaged(err)
		}
		all[name] = o.Changed
		return nil
	})
	return all, err
}
