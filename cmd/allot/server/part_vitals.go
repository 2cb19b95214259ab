package server

import (
	"context"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"net/http"
)

// disksPart watches the disks. The watch outlives the writer.
type disksPart struct {
	settings
	data     *folderPart
	archives *archivesPart
	views    *viewsPart
	nats     *natsPart
	failed   chan<- failure // takes why the server cannot go on

	vitals.Disks
}

func (p *disksPart) start(context.Context) error {
	return p.Start(vitals.DisksConfig{
		Data: p.data.Folder, Views: p.views.Projector, NATS: p.nats.Server, Archives: p.archives.list,
		Reserve: p.config.DiskReserve, RoomAgain: func(err error) { p.failed <- failure{err: err} }, Logger: p.logger,
	})
}

// metricsPart serves metrics.
type metricsPart struct {
	settings
	clients
	disks     *disksPart
	archiver  *archiverPart
	rejected  *rejectedPart
	replica   *replicaPart
	notices   *noticesPart
	writer    *writerPart
	processes *processesPart
	scrubber  *scrubberPart

	server *http.Server // nil: there is none
}

func (p *metricsPart) start(context.Context) (err error) {
	if p.config.Metrics == "" {
		return nil
	}
	m := &vitals.Metrics{
		Disks: &p.disks.Disks, Instruments: p.instruments, Port: p.rest.port, Replica: p.replica.replica,
		Scrubber: p.scrubber.scrubber, Tracer: p.traces.tracer, Writer: p.writer.Load, Notices: p.notices.Load,
		Archiver: p.archiver.archiver.Load, Storing: p.archiver.storing.Load,
	}
	if p.rejected.stream != nil {
		m.Keeper = p.rejected.keeper.Load
	}
	if p.config.UnifiedLimits != "" {
		m.Limits = &p.processes.limits
	}
	p.server, err = m.Serve(p.config.Metrics, p.config.fromScrapers)
	return err
}

func (p *metricsPart) stop() error {
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}
