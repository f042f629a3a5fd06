package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/kopia/kopia/snapshot/upload"
	"github.com/sirupsen/logrus"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo/service"
	"github.com/vmware-tanzu/velero/pkg/uploader"
	"github.com/vmware-tanzu/velero/pkg/uploader/kopia"
)

const requester = "snapshot-pod-volume"

// Where a repository is and what opens it.
type place struct {
	folder, bucket, prefix, endpoint, region, password string
}

func (place place) options(config, cache string) udmrepo.RepoOptions {
	options := udmrepo.RepoOptions{
		StorageType:    udmrepo.StorageTypeFs,
		RepoPassword:   place.password,
		ConfigFilePath: config,
		GeneralOptions: map[string]string{
			udmrepo.GenOptionOwnerName:   udmrepo.GetRepoUser(),
			udmrepo.GenOptionOwnerDomain: udmrepo.GetRepoDomain(),
		},
		StorageOptions: map[string]string{
			udmrepo.StoreOptionFsPath:   place.folder,
			udmrepo.StoreOptionCacheDir: cache,
		},
	}
	if place.bucket != "" {
		options.StorageType = udmrepo.StorageTypeS3
		options.StorageOptions = map[string]string{
			udmrepo.StoreOptionOssBucket:    place.bucket,
			udmrepo.StoreOptionOssRegion:    place.region,
			udmrepo.StoreOptionPrefix:       place.prefix,
			udmrepo.StoreOptionS3Endpoint:   place.endpoint,
			udmrepo.StoreOptionS3KeyID:      os.Getenv("AWS_ACCESS_KEY_ID"),
			udmrepo.StoreOptionS3SecretKey:  os.Getenv("AWS_SECRET_ACCESS_KEY"),
			udmrepo.StoreOptionS3DisableTLS: "true",
			udmrepo.StoreOptionCacheDir:     cache,
		}
	}
	return options
}

type peer struct {
	place    place
	parallel int
	log      *logrus.Logger
}

func (peer *peer) create(ctx context.Context, options udmrepo.RepoOptions) error {
	service := service.Create("kopia", peer.log)
	ready, err := service.IsReady(ctx, options, false)
	if ready || err != nil {
		return err
	}
	return service.Create(ctx, options)
}

func (peer *peer) with(ctx context.Context, options udmrepo.RepoOptions, work func(udmrepo.BackupRepo) error) error {
	service := service.Create("kopia", peer.log)
	if err := service.Connect(ctx, options); err != nil {
		return err
	}
	repository, err := service.Open(ctx, options)
	if err != nil {
		return err
	}
	defer repository.Close(ctx)
	return work(repository)
}

func (peer *peer) backup(
	ctx context.Context, options udmrepo.RepoOptions, folder, source string, block bool,
) (found answer, err error) {
	mode := uploader.PersistentVolumeFilesystem
	if block {
		mode = uploader.PersistentVolumeBlock
	}
	tags := map[string]string{
		uploader.SnapshotRequesterTag: requester,
		uploader.SnapshotUploaderTag:  uploader.KopiaType,
	}
	source = requester + "/" + uploader.KopiaType + "/" + source
	err = peer.with(ctx, options, func(repository udmrepo.BackupRepo) error {
		writer := kopia.NewShimRepo(repository)
		worker := upload.NewUploader(writer)
		worker.Progress = kopia.NewProgress(quiet{}, time.Minute, peer.log)
		worker.FailFast = true
		settings := map[string]string{kopia.UploaderConfigMultipartKey: "true"}
		if peer.parallel > 0 {
			settings["ParallelFilesUpload"] = strconv.Itoa(peer.parallel)
		}
		snapshot, _, err := kopia.Backup(ctx, worker, writer, folder, source, false, "", mode, settings, tags, peer.log)
		if err == nil {
			found = answer{Snapshot: snapshot.ID, Size: snapshot.Size}
		}
		return err
	})
	return found, err
}

func (peer *peer) restore(
	ctx context.Context, options udmrepo.RepoOptions, snapshot, folder string,
) (found answer, err error) {
	err = peer.with(ctx, options, func(repository udmrepo.BackupRepo) error {
		progress := kopia.NewProgress(quiet{}, time.Minute, peer.log)
		settings := map[string]string{}
		if peer.parallel > 0 {
			settings["ParallelFilesDownload"] = strconv.Itoa(peer.parallel)
		}
		size, _, err := kopia.Restore(ctx, kopia.NewShimRepo(repository), progress, snapshot, folder,
			uploader.PersistentVolumeFilesystem, settings, peer.log, make(chan struct{}))
		found = answer{Snapshot: snapshot, Size: size}
		return err
	})
	return found, err
}

func (peer *peer) forget(ctx context.Context, options udmrepo.RepoOptions, snapshots []string) error {
	return peer.with(ctx, options, func(repository udmrepo.BackupRepo) error {
		for _, snapshot := range snapshots {
			if err := repository.DeleteManifest(ctx, udmrepo.ID(snapshot)); err != nil {
				return err
			}
		}
		return repository.Flush(ctx)
	})
}

func (peer *peer) maintain(ctx context.Context, options udmrepo.RepoOptions, mode string) error {
	service := service.Create("kopia", peer.log)
	if err := service.Connect(ctx, options); err != nil {
		return err
	}
	if mode != "auto" {
		options.GeneralOptions[udmrepo.GenOptionMaintainMode] = mode
	}
	return service.Maintain(ctx, options)
}

type quiet struct{}

func (quiet) UpdateProgress(*uploader.Progress) {}
