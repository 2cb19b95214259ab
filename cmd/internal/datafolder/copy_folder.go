package datafolder

import (
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots/copies"
)

// CopyFolder is where a copy of State and read models comes to.
func (d *Folder) CopyFolder() copies.Folder {
	models := d.Path(ReadModels)
	return copies.Folder{ReadModels: models, Models: projector.FilesIn(models), Snapshots: d.Path(Snapshots)}
}

// Aside is the beginning of the names of folders with what was set aside; a time follows.
const Aside = "damaged"
