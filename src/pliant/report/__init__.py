"""What people look at: live progress, tables, figures and a page, all folds over records."""
