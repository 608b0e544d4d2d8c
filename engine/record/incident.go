package record

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

const incidentsBelow = "incidents/" // by ID

// PutIncident records what is known and done about an incident.
func (s *Site) PutIncident(ctx context.Context, i site.IncidentState) error {
	return s.put(ctx, incidentsBelow+i.ID, i)
}

// ForgetIncident deletes an incident on which nobody acted.
func (s *Site) ForgetIncident(ctx context.Context, id string) error {
	return s.forget(ctx, incidentsBelow+id)
}

func (l *loader) incident(id string, value []byte) error {
	var i site.IncidentState
	if err := l.decode(value, &i); err != nil {
		return err
	}
	if l.snap.Incidents == nil {
		l.snap.Incidents = map[string]site.IncidentState{}
	}
	l.snap.Incidents[id] = i
	return nil
}
